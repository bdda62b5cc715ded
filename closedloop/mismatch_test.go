package closedloop

import "testing"

// A mismatch says where it is; a header is of no episode, the end of an episode of no decision.
func TestWhereAMismatchIs(t *testing.T) {
	for want, m := range map[string]Mismatch{
		"line 1: header.episodes is 2, verification gives 0":      {Line: 1, Episode: -1, T: -1, Field: "header.episodes", Trace: "2", Replay: "0"},
		"line 9, episode 3: end.cost is 2, verification gives 1":  {Line: 9, Episode: 3, T: -1, Field: "end.cost", Trace: "2", Replay: "1"},
		"line 4, episode 0, t 0: u[0] is 2, verification gives 1": {Line: 4, Field: "u[0]", Trace: "2", Replay: "1"},
	} {
		if got := m.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
