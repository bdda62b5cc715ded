package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/gpc-engine/gpc/bench"
)

// maxRecord bounds one recorded file.
const maxRecord = 64 << 20

// ReadBench reads what `gpc bench --json` printed, of this version or an older one. What is
// wrong with it is said with the file and the key.
func ReadBench(path string) (*bench.Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxRecord {
		return nil, fmt.Errorf("%s: more than %d bytes, which a record has at most", path, maxRecord)
	}
	r, err := decodeRecord(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func decodeRecord(text []byte) (*bench.Record, error) {
	r := &bench.Record{}
	err := json.Unmarshal(text, r)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		return nil, fmt.Errorf("%s is a %s, want %s", wrong.Field, wrong.Value, wrong.Type)
	case err != nil:
		return nil, err
	}
	for i := range r.Results {
		modernise(&r.Results[i])
	}
	return r, validate(r)
}

// modernise puts what optimal power flows found where it stands now: older records have it in
// place of their size.
func modernise(r *bench.Result) {
	if strings.HasPrefix(r.Op, "opf") && r.Outcome == "" && strings.Contains(r.Size, " optimal") {
		r.Size, r.Outcome = "", r.Size
		if loads, outcome, ok := strings.Cut(r.Outcome, ": "); ok {
			r.Size, r.Outcome = loads, outcome
		}
	}
}

// validate says which key of a record cannot be compared.
func validate(r *bench.Record) error {
	if len(r.Results) == 0 {
		return errors.New("results is missing or empty, so that this is no record of gpc bench")
	}
	for i := range r.Results {
		if err := validateRow(&r.Results[i]); err != nil {
			return fmt.Errorf("results[%d].%w", i, err)
		}
	}
	if !natural(r.Bandwidth) {
		return fmt.Errorf("bandwidth_gb_s: %v, want a finite number ≥ 0", r.Bandwidth)
	}
	return nil
}

// validateRow says which key of a row cannot be; the error begins with it.
func validateRow(r *bench.Result) error {
	switch {
	case r.Op == "":
		return errors.New("op is missing")
	case r.Batch < 1:
		return fmt.Errorf("batch: %d, want 1 or more", r.Batch)
	case !(r.P50 > 0) || !natural(r.P50):
		return fmt.Errorf("p50_us: %v, want a finite time above 0", r.P50)
	case r.Calls < 1:
		return fmt.Errorf("calls: %d, want 1 or more", r.Calls)
	case len(r.Latencies) > bench.MaxLatencies || len(r.Latencies) > r.Calls:
		return fmt.Errorf("latencies_us has %d of %d calls, want at most %d of them", len(r.Latencies), r.Calls, bench.MaxLatencies)
	}
	for _, rate := range []struct {
		key string
		v   float64
	}{{"gflop", r.GFlop}, {"gflops", r.GFlops}, {"peak_gflops", r.PeakGFlops}, {"fraction", r.Fraction}, {"bytes", r.Bytes}} {
		if !natural(rate.v) {
			return fmt.Errorf("%s: %v, want a finite number ≥ 0", rate.key, rate.v)
		}
	}
	for j, us := range r.Latencies {
		if !(us > 0) || !natural(us) {
			return fmt.Errorf("latencies_us[%d]: %v, want a finite time above 0", j, us)
		}
	}
	return nil
}

// natural reports whether a rate or a count can be one.
func natural(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }
