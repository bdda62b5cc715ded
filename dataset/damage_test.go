package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// forged edits a sealed file and sets the seal anew.
func forged[T any, P interface {
	*T
	durable.Sealed
}](t *testing.T, edit func(P)) func([]byte) []byte {
	return func(b []byte) []byte {
		v := P(new(T))
		require.OK(t, json.Unmarshal(b, v))
		edit(v)
		path := filepath.Join(t.TempDir(), "forged")
		require.OK(t, durable.WriteSealed(path, v))
		return require.Get(os.ReadFile(path))(t)
	}
}

// What was cut, edited or forged is refused by the file and by what is wrong with it.
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
		{manifest0, "too many for", forged(t, func(m *manifest) { m.Rows *= 100 })},
		{manifest0, "field chunk", forged(t, func(m *manifest) { m.Chunk = 1 })},
		{manifest0, "hexadecimal", forged(t, func(m *manifest) { m.SamplesSHA256 = "x" + m.SamplesSHA256 })},
		{manifest0, "the samples_sha256 of its samples is", forged(t, func(m *manifest) { m.SamplesSHA256 = sum })},
		{manifest0, sum, forged(t, func(m *manifest) { m.PartSHA256 = sum })},
		{manifest0, "counters.samples", forged(t, func(m *manifest) { m.Counters.Samples++ })},
		{manifest0, "scenarios", forged(t, func(m *manifest) { m.Counters.Scenarios, m.Counters.Retained = 5, m.Counters.Retained+1 })},
		{manifest0, "reasons", forged(t, func(m *manifest) { m.Counters.Infeasible++ })},
		{header, "format", forged(t, func(h *Header) { h.Format = "x" })},
		{header, "version is 3", replace(`"version": 2`, `"version": 3`)},
		{header, "version is 1", replace(`"version": 2`, `"version": 1`)},
		{header, "damaged or edited", replace(`"seed": 5`, `"seed": 6`)},
		{header, "scenarios", forged(t, func(h *Header) { h.Provenance.Scenarios = -1 })},
		{header, "parts, at most", forged(t, func(h *Header) { h.Provenance.Scenarios = 1000000000 })},
		{header, "want 4 of both together", forged(t, func(h *Header) { h.Provenance.Scenarios = 25 })},
		{header, "columns, want", forged(t, func(h *Header) { h.Layout.C = append(h.Layout.C, Component{"u", "s"}) })},
		{header, "seed is 5, want 6", forged(t, func(h *Header) { h.Provenance.Seed = 6 })},
		{header, "problem_sha256", forged(t, func(h *Header) { h.Provenance.ProblemSHA256 = sum })},
		{header, "problem_sha256", forged(t, func(h *Header) { h.Provenance.ProblemSHA256 = "" })},
		{header, "belongs to shard 0/1", forged(t, func(h *Header) { h.Shard.Count = 2 })},
		{header, "program is v1, want v2", forged(t, func(h *Header) { h.Provenance.Program = "v2" })},
	} {
		dir := edited(t, source, c.file, c.edit)
		err := readAll(t, dir)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: error is %v, want %q and the file", c.file, err, c.want)
		}
	}
}

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

// Whatever a part and its manifest hold, what is loaded is finite and of as many rows as was said.
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
