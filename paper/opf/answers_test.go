package opf

import "testing"

// Enough of the drawn loads have a dispatch, under both kinds of priority.
func TestAnswersAreThere(t *testing.T) {
	for name, c := range map[string]*System{"opf30": Thirty().Problem.(*System), "opf30-uncertain": ThirtyUncertain().Problem.(*System)} {
		adaptive, fixed := 0, 0
		for _, a := range c.Answers() {
			if a.Preference.Adaptive {
				adaptive++
			} else {
				fixed++
			}
		}
		if adaptive < 8 || fixed < 2 {
			t.Errorf("%s: %d answers under the adaptive priority and %d under a preference", name, adaptive, fixed)
		}
	}
}
