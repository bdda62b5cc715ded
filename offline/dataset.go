package offline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
)

// Files of a dataset folder.
const (
	headerName    = "dataset.json"
	datasetFormat = "gpc-dataset"
	formatVersion = 1
)

func partName(chunk int) string     { return fmt.Sprintf("part-%06d.parquet", chunk) }
func manifestName(chunk int) string { return fmt.Sprintf("part-%06d.json", chunk) }

// Provenance is what the content of a dataset depends on. Shards that are
// merged agree in all of it.
type Provenance struct {
	Case          string               `json:"case"`
	Program       string               `json:"program"` // version of the program that solved
	Seed          uint64               `json:"seed"`
	Scenarios     int                  `json:"scenarios"`
	Adaptive      bool                 `json:"adaptive"`
	Weights       Weights              `json:"weights"`
	Scalarization domain.Scalarization `json:"scalarization"`
	Chunk         int                  `json:"chunk"` // scenarios per part
	Parameters    []domain.Variable    `json:"parameters"`
	// Points is the SHA-256 of the scenarios where they were given, not drawn by Seed.
	Points string `json:"points,omitempty"`
	// Policy names the controller at whose visited states there are samples too.
	Policy string `json:"policy,omitempty"`
	// Distilled: all samples are that controller's decisions, in episodes of Regime.
	Distilled bool   `json:"distilled,omitempty"`
	Regime    string `json:"regime,omitempty"`
}

// Shard is the part of a dataset that one machine makes: chunk k belongs to the
// shard with Index = k mod Count. The zero value is the whole.
type Shard struct {
	Index int `json:"index"`
	Count int `json:"count"`
}

func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// Header is dataset.json: what a dataset folder holds.
type Header struct {
	Format     string     `json:"format"`
	Version    int        `json:"version"`
	Provenance Provenance `json:"provenance"`
	Shard      Shard      `json:"shard"`
	Command    string     `json:"command"` // what made the folder, for the reader's eyes
	Layout     Layout     `json:"layout"`
}

func (h *Header) chunks() int {
	return (h.Provenance.Scenarios + h.Provenance.Chunk - 1) / h.Provenance.Chunk
}

// own lists the chunks of the header's shard.
func (h *Header) own() []int {
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

func (h *Header) validate() error {
	p := &h.Provenance
	switch {
	case h.Format != datasetFormat:
		return fmt.Errorf("field format is %q, want %q", h.Format, datasetFormat)
	case h.Version != formatVersion:
		return fmt.Errorf("field version is %d, this program reads version %d", h.Version, formatVersion)
	case p.Case == "":
		return errors.New("field case is empty")
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

// differs says the first way in which two provenances or layouts differ.
func (h *Header) differs(o *Header) string {
	a, b := h.Provenance, o.Provenance
	for _, f := range []struct {
		name      string
		got, want any
	}{
		{"case", a.Case, b.Case}, {"program", a.Program, b.Program}, {"seed", a.Seed, b.Seed},
		{"scenarios", a.Scenarios, b.Scenarios}, {"adaptive", a.Adaptive, b.Adaptive}, {"weights", a.Weights, b.Weights},
		{"scalarization", a.Scalarization, b.Scalarization}, {"chunk", a.Chunk, b.Chunk},
		{"points", a.Points, b.Points}, {"policy", a.Policy, b.Policy}, {"distilled", a.Distilled, b.Distilled}, {"regime", a.Regime, b.Regime},
	} {
		if f.got != f.want {
			return fmt.Sprintf("field %s is %v, want %v", f.name, f.got, f.want)
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

// Counters say what a run or a dataset did.
type Counters struct {
	Samples   int64 `json:"samples"`
	Scenarios int64 `json:"scenarios"` // scenarios tried
	Retained  int64 `json:"retained"`  // scenarios with at least one sample
	Discarded int64 `json:"discarded"` // scenarios without
	Solves    int64 `json:"solves"`    // or episodes, of a distilled policy
	// Infeasible and NotConverged are the solves without a solution. The first
	// infeasible solve of a scenario that has no sample yet discards it: whether
	// there is a feasible point does not depend on the preference.
	Infeasible   int64   `json:"infeasible"`
	NotConverged int64   `json:"not_converged"`
	WallSeconds  float64 `json:"wall_s"` // of this run; for a dataset, summed over its parts
	// SolvesPerSecond is of this run's solves; 0 when nothing was left to solve.
	SolvesPerSecond float64 `json:"solves_per_s"`
}

func (c *Counters) add(o Counters) {
	c.Samples += o.Samples
	c.Scenarios += o.Scenarios
	c.Retained += o.Retained
	c.Discarded += o.Discarded
	c.Solves += o.Solves
	c.Infeasible += o.Infeasible
	c.NotConverged += o.NotConverged
	c.WallSeconds += o.WallSeconds
}

// manifest is part-NNNNNN.json. It is written after the part, so a part with a
// manifest is whole.
type manifest struct {
	Chunk    int      `json:"chunk"`
	Rows     int      `json:"rows"`
	Bytes    int64    `json:"bytes"`
	Hash     string   `json:"hash"`
	Counters Counters `json:"counters"`
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

// Open reads the manifests of a dataset folder: a whole one, or one complete
// shard. It refuses an interrupted one, naming what is missing. Sample data are
// read by Load and Verify.
func Open(dir string) (*Dataset, error) {
	d := &Dataset{dir: dir}
	path := filepath.Join(dir, headerName)
	if err := readJSON(path, &d.Header); err != nil {
		return nil, err
	}
	if err := d.Header.validate(); err != nil {
		return nil, fmt.Errorf("offline: %s: %w", path, err)
	}
	own := d.Header.own()
	for i, chunk := range own {
		m, err := readManifest(dir, &d.Header, chunk)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("offline: %s: part %d of %d is missing: the dataset was interrupted, run the command that made it again (%s): %w", dir, i+1, len(own), d.Header.Command, err)
		}
		if err != nil {
			return nil, err
		}
		h, err := parseHash(m.Hash)
		if err != nil {
			return nil, fmt.Errorf("offline: %s: field hash: %w", filepath.Join(dir, manifestName(chunk)), err)
		}
		if d.rows += m.Rows; d.rows > maxRows {
			return nil, fmt.Errorf("offline: %s: more than %d samples", dir, maxRows)
		}
		d.hash.add(h)
		d.Counters.add(m.Counters)
		d.parts = append(d.parts, m)
	}
	return d, nil
}

// readManifest reads and checks the manifest of one part, and that the part has
// the size it says.
func readManifest(dir string, h *Header, chunk int) (manifest, error) {
	var m manifest
	path := filepath.Join(dir, manifestName(chunk))
	if err := readJSON(path, &m); err != nil {
		return m, err
	}
	part := filepath.Join(dir, partName(chunk))
	info, err := os.Stat(part)
	if err != nil {
		return m, fmt.Errorf("offline: %w", err)
	}
	switch {
	case m.Chunk != chunk:
		return m, fmt.Errorf("offline: %s: field chunk is %d, want %d", path, m.Chunk, chunk)
	case m.Rows < 0 || m.Rows > maxPartRows:
		return m, fmt.Errorf("offline: %s: field rows is %d, want 0 to %d", path, m.Rows, maxPartRows)
	case m.Bytes != info.Size():
		return m, fmt.Errorf("offline: %s: the file has %d bytes, its manifest says %d", part, info.Size(), m.Bytes)
	case int64(m.Rows)*h.Layout.rowBytes() > m.Bytes:
		return m, fmt.Errorf("offline: %s: field rows is %d, too many for the %d bytes of its part", path, m.Rows, m.Bytes)
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
	sum := sha256.Sum256(fmt.Appendf(layout, " %d %s", d.rows, d.hash))
	return hex.EncodeToString(sum[:])
}

// Check returns an error, naming the column, unless the samples are of the
// given problem.
func (d *Dataset) Check(spec *domain.Spec) error {
	if d.Header.Provenance.Case != spec.Name {
		return fmt.Errorf("offline: %s is a dataset of case %q, want %q", d.dir, d.Header.Provenance.Case, spec.Name)
	}
	if diff := d.Header.Layout.differs(LayoutOf(spec)); diff != "" {
		return fmt.Errorf("offline: %s does not fit case %s: %s", d.dir, spec.Name, diff)
	}
	return nil
}

// decode reads one part into dst from row at on.
func (d *Dataset) decode(m manifest, dst *Columns, at int) error {
	path := filepath.Join(d.dir, partName(m.Chunk))
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	defer f.Close()
	if err := decodePart(f, m.Bytes, d.Header.Layout, m.Chunk, m.Rows, dst, at); err != nil {
		return fmt.Errorf("offline: %s: %w", path, err)
	}
	from, to := d.Header.span(m.Chunk)
	for i := at; i < at+m.Rows; i++ {
		if s := int(dst.Scenario[i]); s < from || s >= to {
			return fmt.Errorf("offline: %s: column scenario, row %d is %d, want %d to %d", path, i-at, s, from, to-1)
		}
		if dst.Step[i] < 0 {
			return fmt.Errorf("offline: %s: column step, row %d is %d, want at least 0", path, i-at, dst.Step[i])
		}
	}
	return nil
}

// Verify reads every sample and compares each part's content with the hash its
// manifest recorded.
func (d *Dataset) Verify() error {
	for _, m := range d.parts {
		c := newColumns(d.Header.Layout, m.Rows)
		if err := d.decode(m, c, 0); err != nil {
			return err
		}
		if got := c.hash(0, m.Rows).String(); got != m.Hash {
			return fmt.Errorf("offline: %s: content hash is %s, its manifest says %s: the file was changed", filepath.Join(d.dir, partName(m.Chunk)), got, m.Hash)
		}
	}
	return nil
}

// readJSON reads one small JSON file with known fields only.
func readJSON(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxHeader+1))
	if err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	if len(text) > maxHeader {
		return fmt.Errorf("offline: %s: more than %d bytes", path, maxHeader)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("offline: %s: %w", path, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("offline: %s: more than one JSON value", path)
	}
	return nil
}

// writeJSON writes one JSON file atomically.
func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("offline: %s: %w", path, err)
	}
	return writeFile(path, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// writeFile is durable.Create.
func writeFile(path string, write func(io.Writer) error) error {
	if err := durable.Create(path, write); err != nil {
		return fmt.Errorf("offline: %s: %w", path, err)
	}
	return nil
}
