package dataset

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/model"
)

// Files of a dataset folder.
const (
	headerName    = "dataset.json"
	datasetFormat = "gpc-dataset"
	formatVersion = 2
)

func partName(chunk int) string     { return fmt.Sprintf("part-%06d.parquet", chunk) }
func manifestName(chunk int) string { return fmt.Sprintf("part-%06d.json", chunk) }

// Provenance is everything that the content of a dataset depends on. Shards of one dataset have the same Provenance.
type Provenance struct {
	Case string `json:"case"`
	// ProblemSHA256 is the domain.FingerprintOf of the problem that was solved.
	ProblemSHA256 string               `json:"problem_sha256"`
	Program       string               `json:"program"` // version and commit of the solving program
	ISA           string               `json:"isa"`     // of the solving CPU, as far as bits depend on it
	Seed          uint64               `json:"seed"`
	Scenarios     int                  `json:"scenarios"`
	Adaptive      bool                 `json:"adaptive"`
	Weights       Weights              `json:"weights"`
	Scalarization domain.Scalarization `json:"scalarization"`
	Chunk         int                  `json:"chunk"` // scenarios per part
	Parameters    []domain.Variable    `json:"parameters"`
	// PointsSHA256 is the sum of given scenarios; empty for drawn ones.
	PointsSHA256 string `json:"points_sha256,omitempty"`
	// Policy is the controller whose visited states have samples too.
	Policy Policy `json:"policy,omitzero"`
	// Distilled: all samples are that controller's decisions, in episodes of Regime.
	Distilled bool   `json:"distilled,omitempty"`
	Regime    string `json:"regime,omitempty"`
	// Inward is the slack that every optimum leaves to every margin; 0: the targets are the solver's own.
	Inward float64 `json:"inward,omitempty"`
	// KeptOff is the distance of every optimum from every limit, in standard deviations of the closed loop, where its
	// start has room.
	KeptOff float64 `json:"kept_off,omitempty"`
}

// Policy names the controller that visits the states of a dataset; zero: none. Its Backend is "cpu", "cuda sm_90" or
// "cuda sm_90 tf32".
type Policy = model.Policy

// Shard is one machine's part of a dataset: it holds the chunks k with Index = k mod Count. The zero value is the
// whole.
type Shard struct {
	Index int `json:"index"`
	Count int `json:"count"`
}

func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// Header is dataset.json, the description of a dataset folder.
type Header struct {
	Format     string     `json:"format"`
	Version    int        `json:"version"`
	Provenance Provenance `json:"provenance"`
	Shard      Shard      `json:"shard"`
	Command    string     `json:"command"` // the command that made the folder, for the reader
	Layout     Layout     `json:"layout"`
	durable.Seal
}

func (h *Header) chunks() int {
	return (h.Provenance.Scenarios + h.Provenance.Chunk - 1) / h.Provenance.Chunk
}

// ownChunks lists the chunks of the header's shard.
func (h *Header) ownChunks() []int {
	var out []int
	for k := h.Shard.Index; k < h.chunks(); k += h.Shard.Count {
		out = append(out, k)
	}
	return out
}

// span is the range of scenarios of a chunk.
func (h *Header) span(chunk int) (from, to int) {
	from = chunk * h.Provenance.Chunk
	return from, min(from+h.Provenance.Chunk, h.Provenance.Scenarios)
}

// scenarios is the number of the shard's scenarios.
func (h *Header) scenarios() (n int) {
	for _, chunk := range h.ownChunks() {
		from, to := h.span(chunk)
		n += to - from
	}
	return n
}

func (h *Header) validate() error {
	p := &h.Provenance
	switch {
	case h.Format != datasetFormat:
		return fmt.Errorf("field format is %q, want %q", h.Format, datasetFormat)
	case h.Version != formatVersion:
		return fmt.Errorf("field version is %d, this program reads version %d", h.Version, formatVersion)
	case p.Case == "":
		return errors.New("field case is empty")
	case !durable.IsSum(p.ProblemSHA256):
		return fmt.Errorf("field problem_sha256 is %q, want 64 hexadecimal digits", p.ProblemSHA256)
	case p.Scenarios < 1 || p.Scenarios > maxScenarios:
		return fmt.Errorf("field scenarios is %d, want 1 to %d", p.Scenarios, maxScenarios)
	case p.Chunk < 1 || p.Chunk > maxScenarios:
		return fmt.Errorf("field chunk is %d, want 1 to %d", p.Chunk, maxScenarios)
	case h.chunks() > maxChunks:
		return fmt.Errorf("%d scenarios in chunks of %d are %d parts, at most %d are allowed", p.Scenarios, p.Chunk, h.chunks(), maxChunks)
	case h.Shard.Count < 1 || h.Shard.Index < 0 || h.Shard.Index >= h.Shard.Count:
		return fmt.Errorf("field shard is %s, want i/n with 0 ≤ i < n", h.Shard)
	}
	if err := h.Layout.validate(); err != nil {
		return err
	}
	return p.Weights.Validate(len(h.Layout.Objectives))
}

// differs describes the first difference of two headers without their shards; "" where there is none.
func (h *Header) differs(o *Header) string {
	a, b := h.Provenance, o.Provenance
	for _, f := range []struct {
		name            string
		value, expected any
	}{
		{"case", a.Case, b.Case}, {"problem_sha256", a.ProblemSHA256, b.ProblemSHA256},
		{"program", a.Program, b.Program}, {"isa", a.ISA, b.ISA}, {"seed", a.Seed, b.Seed},
		{"scenarios", a.Scenarios, b.Scenarios}, {"adaptive", a.Adaptive, b.Adaptive}, {"weights", a.Weights, b.Weights},
		{"scalarization", a.Scalarization, b.Scalarization}, {"chunk", a.Chunk, b.Chunk},
		{"points_sha256", a.PointsSHA256, b.PointsSHA256}, {"policy", a.Policy, b.Policy}, {"distilled", a.Distilled, b.Distilled}, {"regime", a.Regime, b.Regime}, {"inward", a.Inward, b.Inward}, {"kept_off", a.KeptOff, b.KeptOff},
	} {
		if f.value != f.expected {
			return fmt.Sprintf("field %s is %v, want %v", f.name, f.value, f.expected)
		}
	}
	if len(a.Parameters) != len(b.Parameters) {
		return fmt.Sprintf("field parameters has %d axes, want %d", len(a.Parameters), len(b.Parameters))
	}
	for i := range a.Parameters {
		if a.Parameters[i] != b.Parameters[i] {
			return fmt.Sprintf("field parameters, axis %d is %+v, want %+v", i, a.Parameters[i], b.Parameters[i])
		}
	}
	return h.Layout.differs(o.Layout)
}

// Counters count the work of a run or a dataset.
type Counters struct {
	Samples   int64 `json:"samples"`   // in the dataset
	Scenarios int64 `json:"scenarios"` // tried
	Retained  int64 `json:"retained"`  // with at least one sample
	Discarded int64 `json:"discarded"` // without
	Solves    int64 `json:"solves"`    // or episodes, of a distilled policy
	// Infeasible and NotConverged are the solves without a solution. The first
	// infeasible solve of a scenario that has no sample yet discards it: whether
	// there is a feasible point does not depend on the preference.
	Infeasible      int64            `json:"infeasible"`        // solves without a feasible point
	NotConverged    int64            `json:"not_converged"`     // solves that ended above their tolerance
	NoRoom          int64            `json:"no_room,omitempty"` // solves whose samples have less distance from the limits than the case asks for, as no plan has more; absent: 0
	Reasons         map[string]int64 `json:"reasons,omitempty"` // solves without a sample, by reason
	WallSeconds     float64          `json:"wall_s"`            // wall time; for a dataset, summed over its parts
	SolvesPerSecond float64          `json:"solves_per_s"`      // of this run; 0 without a new solve
}

// Add adds the counters of another run or part; the rate stays.
func (c *Counters) Add(o Counters) {
	c.Samples += o.Samples
	c.Scenarios += o.Scenarios
	c.Retained += o.Retained
	c.Discarded += o.Discarded
	c.Solves += o.Solves
	c.Infeasible += o.Infeasible
	c.NotConverged += o.NotConverged
	c.NoRoom += o.NoRoom
	if len(o.Reasons) > 0 {
		c.Reasons = maps.Clone(c.Reasons) // copies of c share it
		for reason, n := range o.Reasons {
			c.addReason(reason, n)
		}
	}
	c.WallSeconds += o.WallSeconds
}

func (c *Counters) addReason(reason string, n int64) {
	if c.Reasons == nil {
		c.Reasons = map[string]int64{}
	}
	c.Reasons[reason] += n
}

// unsolved counts a solve without a sample.
func (c *Counters) unsolved(err error) {
	reason := "infeasible"
	if errors.Is(err, domain.ErrInfeasible) {
		c.Infeasible++
	} else {
		reason = "not converged"
		c.NotConverged++
	}
	if detail, ok := errors.AsType[*domain.Reason](err); ok {
		reason = detail.Text
	}
	c.addReason(reason, 1)
}

// Missing describes the solves without samples and their causes, the most frequent first; "" where all have samples.
func (c *Counters) Missing() string {
	if len(c.Reasons) == 0 {
		return ""
	}
	reasons := slices.SortedFunc(maps.Keys(c.Reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.Reasons[b], c.Reasons[a]), cmp.Compare(a, b))
	})
	text, total := "", int64(0)
	for i, r := range reasons {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%d %s", c.Reasons[r], r)
		total += c.Reasons[r]
	}
	return fmt.Sprintf("no sample from %d of %d solves: %s", total, c.Solves, text)
}

// check reports counters that contradict the part.
func (c *Counters) check(rows, scenarios int) error {
	unsolved := int64(0)
	for _, n := range c.Reasons {
		unsolved += n
	}
	switch {
	case c.Samples != int64(rows):
		return fmt.Errorf("field counters.samples is %d, the part has %d rows", c.Samples, rows)
	case c.Scenarios != int64(scenarios) || c.Retained < 0 || c.Discarded < 0 || c.Retained+c.Discarded != c.Scenarios:
		return fmt.Errorf("field counters has %d scenarios, %d retained and %d discarded, want %d of both together", c.Scenarios, c.Retained, c.Discarded, scenarios)
	case c.Infeasible < 0 || c.NotConverged < 0 || c.Infeasible+c.NotConverged > c.Solves || unsolved != c.Infeasible+c.NotConverged:
		return fmt.Errorf("field counters has %d solves, %d infeasible, %d not converged and reasons for %d", c.Solves, c.Infeasible, c.NotConverged, unsolved)
	}
	return nil
}

// manifest is part-NNNNNN.json. It is written after the part, so a part with a manifest is complete.
type manifest struct {
	Chunk         int      `json:"chunk"`
	Rows          int      `json:"rows"`
	Bytes         int64    `json:"bytes"`
	PartSHA256    string   `json:"part_sha256"`    // of the file
	SamplesSHA256 string   `json:"samples_sha256"` // contentHash of the samples
	Counters      Counters `json:"counters"`
	durable.Seal
}

// Dataset is an opened folder of Pareto samples. It holds no open files and is
// safe for concurrent use.
type Dataset struct {
	Header   Header
	Counters Counters // over all parts
	dir      string
	parts    []manifest
	rows     int
	hash     contentHash
}

// Open reads the manifests of a dataset folder, whole or one complete shard. It refuses an interrupted one and names
// the missing part. Load and Verify read the samples.
func Open(dir string) (*Dataset, error) {
	d := &Dataset{dir: dir}
	if err := readHeader(dir, &d.Header); err != nil {
		return nil, err
	}
	chunks := d.Header.ownChunks()
	for i, chunk := range chunks {
		m, err := readManifest(dir, &d.Header, chunk)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("dataset: %s: part %d of %d is missing: the dataset was interrupted, run the command that made it again (%s): %w", dir, i+1, len(chunks), d.Header.Command, err)
		}
		if err != nil {
			return nil, err
		}
		h, err := parseHash(m.SamplesSHA256)
		if err != nil {
			return nil, fmt.Errorf("dataset: %s: field samples_sha256: %w", filepath.Join(dir, manifestName(chunk)), err)
		}
		if d.rows += m.Rows; d.rows > maxRows {
			return nil, fmt.Errorf("dataset: %s: more than %d samples", dir, maxRows)
		}
		d.hash.add(h)
		d.Counters.Add(m.Counters)
		d.parts = append(d.parts, m)
	}
	return d, nil
}

// readHeader reads and checks dataset.json.
func readHeader(dir string, h *Header) error {
	path := filepath.Join(dir, headerName)
	if err := durable.ReadSealed(path, h, maxHeader); err != nil {
		var kind struct{ Version int }
		if text, _ := os.ReadFile(path); json.Unmarshal(text, &kind) == nil && kind.Version != formatVersion {
			err = fmt.Errorf("%s: field version is %d, this program reads version %d", path, kind.Version, formatVersion)
		}
		return fmt.Errorf("dataset: %w", err)
	}
	if err := h.validate(); err != nil {
		return fmt.Errorf("dataset: %s: %w", path, err)
	}
	return nil
}

// readManifest reads and checks the manifest of one part, including the part's size.
func readManifest(dir string, h *Header, chunk int) (manifest, error) {
	var m manifest
	path := filepath.Join(dir, manifestName(chunk))
	if err := durable.ReadSealed(path, &m, maxHeader); err != nil {
		return m, fmt.Errorf("dataset: %w", err)
	}
	part := filepath.Join(dir, partName(chunk))
	info, err := os.Stat(part)
	if err != nil {
		return m, fmt.Errorf("dataset: %w", err)
	}
	switch {
	case m.Chunk != chunk:
		return m, fmt.Errorf("dataset: %s: field chunk is %d, want %d", path, m.Chunk, chunk)
	case m.Rows < 0 || m.Rows > maxPartRows:
		return m, fmt.Errorf("dataset: %s: field rows is %d, want 0 to %d", path, m.Rows, maxPartRows)
	case m.Bytes != info.Size():
		return m, fmt.Errorf("dataset: %s: the file has %d bytes, its manifest says %d", part, info.Size(), m.Bytes)
	case int64(m.Rows)*h.Layout.rowBytes() > m.Bytes:
		return m, fmt.Errorf("dataset: %s: field rows is %d, too many for the %d bytes of its part", path, m.Rows, m.Bytes)
	}
	from, to := h.span(chunk)
	if err := m.Counters.check(m.Rows, to-from); err != nil {
		return m, fmt.Errorf("dataset: %s: %w", path, err)
	}
	return m, nil
}

// Rows is the number of samples.
func (d *Dataset) Rows() int { return d.rows }

// Hash identifies the content: layout and samples, whatever their order and
// division into parts and shards.
func (d *Dataset) Hash() string {
	layout, err := json.Marshal(d.Header.Layout)
	if err != nil {
		panic(err) // strings and slices always marshal
	}
	return durable.Sum(sha256.Sum256(fmt.Appendf(layout, " %d %s", d.rows, d.hash)))
}

// Check returns an error, naming the column, unless the samples are of the
// given problem.
func (d *Dataset) Check(p domain.Problem) error {
	spec, provenance := p.Spec(), &d.Header.Provenance
	if provenance.Case != spec.Name {
		return fmt.Errorf("dataset: %s is a dataset of case %q, want %q", d.dir, provenance.Case, spec.Name)
	}
	if diff := d.Header.Layout.differs(LayoutOf(spec)); diff != "" {
		return fmt.Errorf("dataset: %s does not fit case %s: %s", d.dir, spec.Name, diff)
	}
	if sum := durable.Sum(domain.FingerprintOf(p)); provenance.ProblemSHA256 != sum {
		return fmt.Errorf("dataset: %s was solved for other equations than those of case %s, though name and columns are the same: its problem_sha256 is %s, that of the case is %s", d.dir, spec.Name, provenance.ProblemSHA256, sum)
	}
	return nil
}

// decode reads a part into dst from row firstRow. It refuses a part that is not, to the bit, that of the header and
// manifest. Every reader of samples goes through here.
func (h *Header) decode(dir string, m *manifest, dst *Columns, firstRow int) error {
	path := filepath.Join(dir, partName(m.Chunk))
	if err := h.decodeFile(path, m, dst, firstRow); err != nil {
		return fmt.Errorf("dataset: %s: %w", path, err)
	}
	return nil
}

func (h *Header) decodeFile(path string, m *manifest, dst *Columns, firstRow int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if m.Bytes > maxPartBytes {
		return fmt.Errorf("file has %d bytes, at most %d are allowed", m.Bytes, int64(maxPartBytes))
	}
	text := make([]byte, m.Bytes)
	if _, err := io.ReadFull(f, text); err != nil {
		return err
	}
	if sum := durable.Sum(sha256.Sum256(text)); sum != m.PartSHA256 {
		return fmt.Errorf("damaged or edited: its SHA-256 is %s, its manifest says %s", sum, m.PartSHA256)
	}
	headerText, err := decodePart(bytes.NewReader(text), m.Bytes, h.Layout, m.Chunk, m.Rows, dst, firstRow)
	if err != nil {
		return err
	}
	var partHeader Header
	if err := json.Unmarshal([]byte(headerText), &partHeader); err != nil {
		return fmt.Errorf("metadata %s: %w", keyHeader, err)
	}
	if diff := partHeader.differs(h); diff != "" {
		return fmt.Errorf("the part belongs to another dataset than %s says: %s", headerName, diff)
	}
	if partHeader.Shard != h.Shard {
		return fmt.Errorf("the part belongs to shard %s, but %s says %s", partHeader.Shard, headerName, h.Shard)
	}
	from, to := h.span(m.Chunk)
	for i := firstRow; i < firstRow+m.Rows; i++ {
		if s := int(dst.Scenario[i]); s < from || s >= to {
			return fmt.Errorf("column scenario, row %d is %d, want %d to %d", i-firstRow, s, from, to-1)
		}
		if dst.Step[i] < 0 {
			return fmt.Errorf("column step, row %d is %d, want at least 0", i-firstRow, dst.Step[i])
		}
	}
	if sum := dst.hash(firstRow, firstRow+m.Rows).String(); sum != m.SamplesSHA256 {
		return fmt.Errorf("the samples_sha256 of its samples is %s, its manifest says %s", sum, m.SamplesSHA256)
	}
	return nil
}

// decode reads all parts into dst from row firstRow, several at a time. It returns the error of the first bad part.
func (d *Dataset) decode(dst *Columns, firstRow int) error {
	first := make([]int, len(d.parts))
	for i := range d.parts {
		first[i] = firstRow
		firstRow += d.parts[i].Rows
	}
	return d.forEachPart(func(m *manifest, i int) error { return d.Header.decode(d.dir, m, dst, first[i]) })
}

// Verify reads every sample as Load does and discards it.
func (d *Dataset) Verify() error {
	return d.forEachPart(func(m *manifest, _ int) error {
		return d.Header.decode(d.dir, m, newColumns(d.Header.Layout, m.Rows), 0)
	})
}

// forEachPart calls f for all parts on all cores and returns the first part's error.
func (d *Dataset) forEachPart(f func(m *manifest, i int) error) error {
	errs := make([]error, len(d.parts))
	parallel.Each(runtime.GOMAXPROCS(0), len(d.parts), func(_, i int) { errs[i] = f(&d.parts[i], i) })
	return cmp.Or(errs...)
}
