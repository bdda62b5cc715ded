package peerrecord

import "fmt"

// WholeJobs is the record of jobs that were timed whole on a GPU, beside the cores of its host. It is written by hand
// from the programs' own output.
type WholeJobs struct {
	Device string `json:"device"`
	Host   string `json:"host"` // the cores of the same machine
	Driver string `json:"driver"`
	Commit string `json:"commit"`
	Later  string `json:"later_commit"` // of the jobs' Later; "": none was timed again
	Jobs   []Job  `json:"jobs"`
	// Sanitizers are the runs of NVIDIA's compute-sanitizer over the conformance suite.
	Sanitizers []Sanitized `json:"sanitizers"`
	// Decisions are evaluations with the same seeds on the GPU and on the CPU.
	Decisions []SameDecisions `json:"decisions"`
}

// Job is one of them, times in ms. A time of 0 was not taken; without a first one there is a later.
type Job struct {
	Job      string     `json:"job"`
	MS       [2]float64 `json:"ms"`      // least and most of what was seen, of the median of a call
	TF32MS   float64    `json:"tf32_ms"` // with products on tensor cores
	P99MS    float64    `json:"p99_ms"`
	CoresMS  float64    `json:"cores_ms"`    // on the host's cores
	Forecast [2]float64 `json:"forecast_ms"` // what pages said before, lower and upper end; zeros: nothing
	Because  string     `json:"because"`     // where the time goes
	Later    *Later     `json:"later"`       // the same job at a later commit; nil: not timed again
	WantedMS float64    `json:"wanted_ms"`   // the goal; 0: none
	Counted  Counted    `json:"counted"`
}

// Counted are the launches of a job (report.JobForecast): those of an operation of a case with so many rows, so many times. The zero value: they
// were not counted.
type Counted struct {
	Case  string `json:"case"`
	Of    string `json:"of"`
	Rows  int    `json:"rows"`
	Times int    `json:"times"`
}

// Latest is the time that was taken last, ms.
func (j *Job) Latest() float64 {
	if j.Later != nil {
		return j.Later.MS
	}
	return j.MS[1]
}

// Later is a job at a later commit, medians in ms. A time of 0 was not taken.
type Later struct {
	MS      float64 `json:"ms"`
	P99MS   float64 `json:"p99_ms"`
	TF32MS  float64 `json:"tf32_ms"`
	Because string  `json:"because"` // where the time goes now
}

// Sanitized is one tool of compute-sanitizer.
type Sanitized struct {
	Tool  string `json:"tool"`
	Found int    `json:"found"`
	Over  string `json:"over"` // the tests it ran over
}

// SameDecisions are methods whose results on a GPU are those of the CPU.
type SameDecisions struct {
	Case    string   `json:"case"`
	Methods []string `json:"methods"`
	Result  string   `json:"result"`
}

// Check says what of a record is missing or impossible.
func (w *WholeJobs) Check() error {
	if w.Device == "" || w.Commit == "" || w.Driver == "" {
		return fmt.Errorf("a record of whole jobs has device %q, commit %q and driver %q, want all of them", w.Device, w.Commit, w.Driver)
	}
	for _, j := range w.Jobs {
		if j.Later != nil && (!(j.Later.MS > 0) || w.Later == "") {
			return fmt.Errorf("job %q takes %v ms at the later commit %q, want a positive time and the commit", j.Job, j.Later.MS, w.Later)
		}
		if !(j.MS[0] > 0 || j.MS[0] == 0 && j.Later != nil) || !(j.MS[1] >= j.MS[0]) || j.CoresMS < 0 || j.TF32MS < 0 || !(j.Forecast[0] <= j.Forecast[1]) {
			return fmt.Errorf("job %q takes %v ms, %v on cores, forecast %v: want positive times in order", j.Job, j.MS, j.CoresMS, j.Forecast)
		}
	}
	return nil
}
