package report

import (
	"testing"
)

// A suite that did not end is not shown as one without a failure.
func TestConformanceIsShown(t *testing.T) {
	r := New("h200", nil)
	if err := r.Add([]byte(`{"device":"NVIDIA H200","commit":"c","suites":[{"step":"suite-operations","ok":true,"passed":40,"failed":[],"skipped":["TestFaultsOfARound"],"seconds":31},{"step":"suite-rollout","ok":false,"passed":2,"failed":[],"skipped":[],"seconds":90}]}`)); err != nil {
		t.Fatal(err)
	}
	rows := conformanceSection(Of[Conformance](r)[0]).Rows
	if len(rows) != 3 || rows[1][3] != "TestFaultsOfARound" || rows[1][2] != "0" || rows[2][2] != "did not end" {
		t.Errorf("%q", rows)
	}
}
