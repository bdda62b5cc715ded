package cli

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// shortCrane is the file of a crane of a few decisions.
func shortCrane(t *testing.T) string {
	t.Helper()
	text := string(require.Get(os.ReadFile("../equations/systemfile/testdata/crane.json"))(t))
	text = strings.Replace(strings.Replace(text, `"steps":50`, `"steps":6`, 1), `["const",0.02]`, `["const",0.16666666666666666]`, 1)
	file := filepath.Join(t.TempDir(), "crane.json")
	require.OK(t, os.WriteFile(file, []byte(text), 0o644))
	return file
}

// Gains of the actuators are uncertain by a flag, in one's own plant and in another, by each command that decides; the trace is
// verified without it. The flag is refused where nothing is measured, and where it is no share.
func TestUncertainGainsByAFlag(t *testing.T) {
	app, _ := cart(t)
	crane := shortCrane(t)
	trace := filepath.Join(t.TempDir(), "run.jsonl")
	gained := []string{"--uncertain-gains", "0.1", "--estimate", "0.01", "--episodes", "2"}
	for _, args := range [][]string{
		{"eval", crane, "--method", "mpc-3", "--trace", trace}, {"eval", crane, "--method", "mpc-3", "--plant", "pull=0.9"},
		{"eval", crane, "--method", "mpc-3", "--plant", crane}, {"eval", "pair", crane, "--methods", "mpc-3,hold"},
	} {
		code, out, log := run(app, append(args, gained...)...)
		if code != 0 || args[1] != "pair" && !strings.Contains(out, "crane-gains") {
			t.Errorf("%v: exit code %d, %s, %s", args, code, out, log)
		}
	}
	if code, out, log := run(app, "verify", trace); code != 0 {
		t.Errorf("exit code %d, %s, %s", code, out, log)
	}
	refused(t, app, "--estimate", "eval", crane, "--method", "mpc-3", "--uncertain-gains", "0.1")
	refused(t, app, "below 1", "eval", crane, "--method", "mpc-3", "--uncertain-gains", "1", "--estimate", "0.01")
	refused(t, app, "no system of equations", "eval", "cart", "--method", "nmpc", "--uncertain-gains", "0.1", "--estimate", "0.01")
}

// A server and an export say by what they decide: a map does not hold what it was compiled with.
func TestDoorsSayByWhatTheyDecide(t *testing.T) {
	app, _ := cart(t)
	crane := shortCrane(t)
	how := []string{"--method", "nmpc", "--estimate", "0.01", "--keep-off", "2"}
	_, _, log := run(app, append([]string{"serve", crane, "--stdin"}, how...)...)
	_, out, _ := run(app, append([]string{"export", crane, "--episodes", "1", "--c", filepath.Join(t.TempDir(), "c")}, how...)...)
	for _, text := range []string{log, out} {
		if !strings.Contains(text, "every state measured with a noise of 0.01 of its scale; 2 deviations kept off every limit") {
			t.Errorf("%s does not say by what it decides", text)
		}
	}
	if _, _, log := run(app, "serve", crane, "--stdin", "--method", "nmpc"); !strings.Contains(log, `sensing="the state itself"`) {
		t.Errorf("%s does not say that the state is measured", log)
	}
}

// What episodes are driven with stands above the tables, and in the JSON: noise, estimates, what is kept off, a delay, another
// plant. A plain evaluation says nothing of them.
func TestWhatEpisodesAreDrivenWithIsPrinted(t *testing.T) {
	app, _ := cart(t)
	crane := shortCrane(t)
	const estimates = "decided by estimates: every state measured with a noise of 0.01 of its scale"
	for _, x := range []struct {
		flags, text string
		json        []string
	}{
		{"", "", nil},
		{"--noise 0.02 --bias 0.01", "measured with a noise of 0.02 of each state's scale, by which decisions are made as it is\nmeasured with an error of 0.01 that stays\n", []string{`"noise":0.02`, `"bias":0.01`}},
		{"--estimate 0.01", estimates + "; nothing kept off the limits\n", []string{`"estimated":true,"measured_noise":0.01`}},
		{"--estimate 0.01 --estimate-from x,swing --estimate-window 2 --keep-off 2 --delay 1",
			"decided by estimates: x, swing measured with a noise of 0.01 of its scale, at the last 2 decisions at once; 2 deviations kept off every limit; delay from measurement to action, in periods: 1\n",
			[]string{`"estimated":true,"estimate_window":2,"kept_off":2,"measured_noise":0.01,"measured_states":["x","swing"],"delay":1`}},
		{"--delay 2", "delay from measurement to action, in periods: 2\n", []string{`"delay":2`}},
		{"--shift pull=0.9", "the plant is shifted: pull × 0.9; solver and reference know it, the map does not\n", nil},
	} {
		for first, args := range map[string][]string{"case ": {"eval", crane, "--method", "mpc-3"}, "method ": {"eval", "pair", crane, "--methods", "mpc-3,hold"}} {
			args = append(append(args, "--episodes", "2"), strings.Fields(x.flags)...)
			if code, out, log := run(app, args...); code != 0 || !strings.HasPrefix(out, x.text+first) {
				t.Errorf("%v: exit code %d, %s, %s", args, code, out, log)
			}
			code, out, log := run(app, append(args, "--json")...)
			for _, want := range x.json {
				if code != 0 || !strings.Contains(out, want) {
					t.Errorf("%v --json has no %s: exit code %d, %s, %s", args, want, code, out, log)
				}
			}
			if x.json == nil && (strings.Contains(out, `"estimated"`) || strings.Contains(out, `"delay"`)) {
				t.Errorf("%v --json: %s", args, out)
			}
		}
	}
}

// A case that declares what is measured takes no --estimate, which would put exact parameters in the place of its unknown ones.
func TestADeclaredMeasurementTakesNoOther(t *testing.T) {
	app, _ := cart(t)
	crane := shortCrane(t)
	text := string(require.Get(os.ReadFile(crane))(t))
	declared := strings.Replace(text, `"integrator"`, `"measurement":{"outputs":[{"name":"x"},{"name":"v"},{"name":"swing"},{"name":"rate"}],"deviation":[0.01,0.01,0.01,0.01]},"integrator"`, 1)
	require.OK(t, os.WriteFile(crane, []byte(declared), 0o644))
	eval := []string{"eval", crane, "--method", "mpc-3", "--episodes", "2"}
	if code, out, log := run(app, eval...); code != 0 || !strings.HasPrefix(out, "decided by estimates of what the case says is measured; nothing kept off the limits\n") {
		t.Fatalf("exit code %d, %s, %s", code, out, log)
	}
	refused(t, app, "declares what is measured", append(eval, "--estimate", "0.01")...)
	require.OK(t, os.WriteFile(crane, []byte(strings.Replace(declared, `"deviation":`, `"process":[0,0.01,0,0],"deviation":`, 1)), 0o644))
	if code, out, log := run(app, eval...); code != 0 || !strings.Contains(out, "; the reference does not know what acts on the plant") {
		t.Errorf("with what acts on the plant: exit code %d, %s, %s", code, out, log)
	}
	if code, out, log := run(app, append(eval, "--json")...); code != 0 || !strings.Contains(out, `"disturbed":true`) {
		t.Errorf("with what acts on the plant: exit code %d, %s, %s", code, out, log)
	}
}

// What the plant is shifted by stands above the tables; noise is not added to a measurement that has its own, by any command.
func TestWhatAPlantIsShiftedByIsPrinted(t *testing.T) {
	app, _ := cart(t)
	crane := shortCrane(t)
	shifted := []string{"--shift", "pull=0.9", "--episodes", "2"}
	for _, args := range [][]string{{"eval", crane, "--method", "mpc-3"}, {"eval", "pair", crane, "--methods", "mpc-3,hold"}} {
		code, out, log := run(app, append(args, shifted...)...)
		if code != 0 || !strings.Contains(out, "the plant is shifted: pull × 0.9; ") {
			t.Errorf("%v: exit code %d, %s, %s", args, code, out, log)
		}
		refused(t, app, "leave out --noise", append(args, "--noise", "0.01", "--estimate", "0.01")...)
	}
}

// Numbers of a comparison have no digits without a meaning: four digits or more before the point have none behind it.
func TestDigitsOfAComparison(t *testing.T) {
	for v, want := range map[closedloop.Number]string{
		0.123456: "0.12346", -9.876543: "-9.87654", 44.28775: "44.29", -1682.51755: "-1683", closedloop.Number(math.NaN()): "–",
	} {
		if got := percents(v, 5); got != want {
			t.Errorf("%v is printed as %s, want %s", v, got, want)
		}
	}
}

// Some states alone are measured by a flag; the trace says which, and is verified without it. Names that the case does not have, or
// twice, are refused, and so is the flag without noise.
func TestSomeStatesMeasuredByAFlag(t *testing.T) {
	app, _ := cart(t)
	crane := shortCrane(t)
	trace := filepath.Join(t.TempDir(), "run.jsonl")
	some := func(names string) []string {
		return []string{"eval", crane, "--method", "mpc-3", "--episodes", "2", "--estimate", "0.01", "--estimate-from", names}
	}
	if code, out, log := run(app, append(some("swing,x"), "--trace", trace)...); code != 0 {
		t.Fatalf("exit code %d, %s, %s", code, out, log)
	}
	if text := string(require.Get(os.ReadFile(trace))(t)); !strings.Contains(text, `"measured_noise":0.01,"measured_states":["swing","x"]`) {
		t.Errorf("the trace begins with %.1200s", text)
	}
	if code, out, log := run(app, "verify", trace); code != 0 {
		t.Errorf("exit code %d, %s, %s", code, out, log)
	}
	refused(t, app, `has no state "sway"`, some("swing,sway")...)
	refused(t, app, `"swing" is named twice`, some("swing,swing")...)
	refused(t, app, "want --estimate too", "eval", crane, "--method", "mpc-3", "--estimate-from", "swing")
}
