package offline

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
)

func TestDatasetHoldsWhatWasSolved(t *testing.T) {
	dir := t.TempDir()
	counters, solver := generate(t, options(dir))
	d, c := load(t, dir)
	if counters.Scenarios != 23 || counters.Retained+counters.Discarded != 23 || counters.Discarded == 0 || counters.NotConverged == 0 {
		t.Errorf("counters are %+v", counters)
	}
	if counters.Solves != solver.solves.Load() || counters.Samples != int64(c.Rows()) || counters.Samples != 4*(counters.Solves-counters.Infeasible-counters.NotConverged) {
		t.Errorf("counters are %+v, the solver was called %d times and %d rows were read", counters, solver.solves.Load(), c.Rows())
	}
	if counters.SolvesPerSecond <= 0 || counters.WallSeconds <= 0 {
		t.Errorf("counters are %+v", counters)
	}
	// Solve everything again without the disk and compare.
	points, err := LatinHypercube(solver.Parameters(), 23, 5)
	if err != nil {
		t.Fatal(err)
	}
	row := 0
	for scenario, p := range points {
		prefs := []domain.Preference{{Adaptive: true}}
		for _, w := range (Weights{Count: 2}).Of(scenario, 2, 5) {
			prefs = append(prefs, domain.Preference{W: w})
		}
		for k, pref := range prefs {
			number := scenario*3 + k
			want, err := solver.Solve(scenario, p, pref, domain.WeightedSum, derive(5, streamSolve, uint64(number)))
			if err != nil {
				continue
			}
			for i, s := range want {
				s.Scenario, s.Preference = scenario, pref
				s.Trajectory = int64(number)*maxLocal + int64(i/3)
				want, err := ColumnsOf(d.Header.Layout, []domain.Sample{s})
				if got := c.Select([]int{row}); err != nil || !reflect.DeepEqual(got, want) {
					t.Fatalf("row %d is %+v, want %+v, %v", row, got, want, err)
				}
				row++
			}
		}
	}
	if row != c.Rows() {
		t.Errorf("%d rows, want %d", c.Rows(), row)
	}
	short := domain.Sample{Preference: domain.Preference{Adaptive: true}}
	if _, err := ColumnsOf(d.Header.Layout, []domain.Sample{short}); err == nil || !strings.Contains(err.Error(), "sample 0 has 0 values of S, want 2") {
		t.Errorf("a sample without a state: %v", err)
	}
}

func TestOpenAndReadRefusals(t *testing.T) {
	source := t.TempDir()
	generate(t, options(source))
	part, manifest0, header := partName(0), manifestName(0), headerName
	replace := func(from, to string) func([]byte) []byte {
		return func(b []byte) []byte {
			if !bytes.Contains(b, []byte(from)) {
				t.Fatalf("nothing to edit: %s", from)
			}
			return bytes.Replace(b, []byte(from), []byte(to), 1)
		}
	}
	// Forged is what somebody edits who sets the seal anew.
	forgedHeader := func(edit func(*Header)) func([]byte) []byte {
		return func(b []byte) []byte {
			var h Header
			if err := json.Unmarshal(b, &h); err != nil {
				t.Fatal(err)
			}
			edit(&h)
			path := filepath.Join(t.TempDir(), "forged")
			if err := durable.WriteSealed(path, &h); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	forgedManifest := func(edit func(*manifest)) func([]byte) []byte {
		return func(b []byte) []byte {
			var m manifest
			if err := json.Unmarshal(b, &m); err != nil {
				t.Fatal(err)
			}
			edit(&m)
			path := filepath.Join(t.TempDir(), "forged")
			if err := durable.WriteSealed(path, &m); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	sum := strings.Repeat("ab", 32)
	for _, c := range []struct {
		file, want string
		edit       func([]byte) []byte
	}{
		{part, "its manifest says", func(b []byte) []byte { return b[:len(b)-1] }},
		{part, "damaged or edited", func(b []byte) []byte { b[len(b)-1] = 'X'; return b }},
		{part, "damaged or edited", func(b []byte) []byte { b[100] ^= 0x40; return b }},
		{manifest0, "unknown field", replace(`"rows"`, `"row"`)},
		{manifest0, "damaged or edited", replace(`"solves": `, `"solves": 1`)},
		{manifest0, "damaged or edited", replace(`"rows": `, `"rows":  `)},
		{manifest0, "invalid character", func([]byte) []byte { return []byte("x") }},
		{manifest0, "too many for", forgedManifest(func(m *manifest) { m.Rows *= 100 })},
		{manifest0, "field chunk", forgedManifest(func(m *manifest) { m.Chunk = 1 })},
		{manifest0, "hexadecimal", forgedManifest(func(m *manifest) { m.SamplesSHA256 = "x" + m.SamplesSHA256 })},
		{manifest0, "the samples_sha256 of its samples is", forgedManifest(func(m *manifest) { m.SamplesSHA256 = sum })},
		{manifest0, sum, forgedManifest(func(m *manifest) { m.PartSHA256 = sum })},
		{manifest0, "counters.samples", forgedManifest(func(m *manifest) { m.Counters.Samples++ })},
		{manifest0, "scenarios", forgedManifest(func(m *manifest) { m.Counters.Scenarios, m.Counters.Retained = 5, m.Counters.Retained+1 })},
		{manifest0, "reasons", forgedManifest(func(m *manifest) { m.Counters.Infeasible++ })},
		{header, "format", forgedHeader(func(h *Header) { h.Format = "x" })},
		{header, "version is 3", replace(`"version": 2`, `"version": 3`)},
		{header, "version is 1", replace(`"version": 2`, `"version": 1`)},
		{header, "damaged or edited", replace(`"seed": 5`, `"seed": 6`)},
		{header, "scenarios", forgedHeader(func(h *Header) { h.Provenance.Scenarios = -1 })},
		{header, "parts, at most", forgedHeader(func(h *Header) { h.Provenance.Scenarios = 1000000000 })},
		{header, "want 4 of both together", forgedHeader(func(h *Header) { h.Provenance.Scenarios = 25 })},
		{header, "columns, want", forgedHeader(func(h *Header) { h.Layout.C = append(h.Layout.C, Component{"u", "s"}) })},
		{header, "seed is 5, want 6", forgedHeader(func(h *Header) { h.Provenance.Seed = 6 })},
		{header, "problem_sha256", forgedHeader(func(h *Header) { h.Provenance.ProblemSHA256 = sum })},
		{header, "problem_sha256", forgedHeader(func(h *Header) { h.Provenance.ProblemSHA256 = "" })},
		{header, "is of shard 0/1", forgedHeader(func(h *Header) { h.Shard.Count = 2 })},
		{header, "program is v1, want v2", forgedHeader(func(h *Header) { h.Provenance.Program = "v2" })},
	} {
		dir := edited(t, source, c.file, c.edit)
		err := readAll(t, dir)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: error is %v, want %q and the file", c.file, err, c.want)
		}
	}
	d, err := Open(source)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*domain.Spec){
		"s_1 is v [m/s], want v [km/h]":        func(s *domain.Spec) { s.Measured[1].Unit = "km/h" },
		"margins has 1 components, want 0":     func(s *domain.Spec) { s.Margins = nil },
		d.Header.Provenance.ProblemSHA256:      func(s *domain.Spec) { s.Action[0].Hi = 2 },
		`is a dataset of case "toy", want "b"`: func(s *domain.Spec) { s.Name = "b" },
	} {
		other := changed{spec: toy{}.Spec()}
		change(other.spec)
		if err := d.Check(other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check: %v, want %q", err, want)
		}
	}
}

// changed is the toy with another Spec.
type changed struct {
	toy
	spec *domain.Spec
}

func (c changed) Spec() *domain.Spec { return c.spec }

// One flipped bit, wherever it is in the folder, is an error that names the file.
func TestAFlippedBitIsRefused(t *testing.T) {
	source := t.TempDir()
	opt := options(source)
	opt.Scenarios, opt.Weights.Count = 6, 1
	generate(t, opt)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, file := range entries(t, source) {
		whole, err := os.ReadFile(filepath.Join(source, file))
		if err != nil {
			t.Fatal(err)
		}
		dir := edited(t, source, file, func(b []byte) []byte { return b })
		path := filepath.Join(dir, file)
		for range 40 {
			bit := rng.IntN(8 * len(whole))
			b := bytes.Clone(whole)
			b[bit/8] ^= 1 << (bit % 8)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := Open(dir)
			if err == nil {
				_, _, _, err = Load(d)
			}
			if err == nil || !strings.Contains(err.Error(), file) {
				t.Fatalf("bit %d of %s: %v", bit, file, err)
			}
		}
	}
}

func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	opt := options(dir)
	opt.Scenarios, opt.Chunk = 3, 3
	generate(f, opt)
	d, err := Open(dir)
	if err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, partName(0)))
	if err != nil {
		f.Fatal(err)
	}
	text, err := json.Marshal(d.parts[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, text)
	f.Add(whole[:len(whole)/2], text)
	f.Add(whole, bytes.Replace(text, []byte(`"rows":`), []byte(`"rows":9`), 1))
	for i := 0; i < len(whole); i += 61 {
		mutated := bytes.Clone(whole)
		mutated[i] ^= 0x21
		f.Add(mutated, text)
	}
	rows := d.parts[0].Rows
	header, err := os.ReadFile(filepath.Join(dir, headerName))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, part, text []byte) {
		// The part alone, with the rows it should have.
		c := newColumns(d.Header.Layout, rows)
		if _, err := decodePart(bytes.NewReader(part), int64(len(part)), d.Header.Layout, 0, rows, c, 0); err == nil {
			for _, b := range c.blocks() {
				for i, v := range b.m.Data {
					if v-v != 0 {
						t.Fatalf("block %s has %v at %d", b.name, v, i)
					}
				}
			}
		}
		// The folder, with a manifest that claims the part's size and checksum.
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, headerName), header, 0o600); err != nil {
			t.Fatal(err)
		}
		var m manifest
		if json.Unmarshal(text, &m) != nil {
			return
		}
		m.Bytes, m.PartSHA256 = int64(len(part)), durable.Sum(sha256.Sum256(part))
		if err := durable.WriteSealed(filepath.Join(dir, manifestName(0)), &m); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, partName(0)), part, 0o600); err != nil {
			t.Fatal(err)
		}
		opened, err := Open(dir)
		if err != nil {
			return
		}
		if loaded, _, _, err := Load(opened); err == nil && loaded.Rows() != opened.Rows() {
			t.Fatalf("%d rows loaded, want %d", loaded.Rows(), opened.Rows())
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	dir := b.TempDir()
	opt := options(dir)
	opt.Scenarios, opt.Chunk, opt.Weights.Count = 10000, 64, 9
	generate(b, opt)
	d, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(d.Rows()), "rows")
	b.Run("load", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(d.Rows()) * d.Header.Layout.rowBytes())
		for range b.N {
			if _, _, _, err := Load(d); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.SetBytes(int64(d.Rows()) * d.Header.Layout.rowBytes())
		for range b.N {
			if err := d.Verify(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
