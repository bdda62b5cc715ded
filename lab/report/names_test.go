package report

import "testing"

// Early records have other names of methods; none of them is another method's.
func TestEarlyNamesOfMethods(t *testing.T) {
	r := New("", known())
	for name, renamed := range map[string]map[string]string{
		"opf30": {
			"gpc": "navigator", "gpc-observer": "navigator-observer", "gpc-no-lie": "navigator-no-lie", "gpc-polish": "polish",
			"gpc-refine-64": "refine-64", "gpc-refine-64-ahead": "refine-64-ahead", "gpc-refine-64-no-rollout": "refine-64-no-rollout", "navigator": "navigator",
		},
		"multiagent-moving": {"gpc": "planner", "gpc-384": "planner-384", "gpc-no-latent-descents": "planner-no-latent-descents", "gpc-no-lie": "planner-no-lie", "navigator": "navigator"},
		"none":              {"gpc": "navigator", "gpc-refine-64": "refine-64", "gcp": "gcp"},
	} {
		for early, now := range renamed {
			if got := r.present(name, early); got != now {
				t.Errorf("%s: %s is %s, want %s", name, early, got, now)
			}
		}
	}
}
