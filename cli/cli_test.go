package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/ocp"
)

// cart is a program with one case whose map is exact by construction, written to
// a model file.
func cart(t *testing.T) (*App, string) {
	t.Helper()
	p := testdomain.NewCart(8)
	solver := require.Get(ocp.New(p, testdomain.Starts, testdomain.Start, ocp.Options{}))(t)
	file := filepath.Join(t.TempDir(), "cart.safetensors")
	require.OK(t, testdomain.Map(p, 9, true).WriteFile(file))
	return &App{Catalogue: gpc.Catalogue{Cases: []domain.Case{{Problem: p, Solver: solver, Plant: closedloop.Simulated(p, testdomain.Starts, testdomain.Start)}}}}, file
}

// run executes a command line and returns exit code, stdout and stderr.
func run(app *App, args ...string) (int, string, string) {
	var out, log bytes.Buffer
	a := *app
	a.Stdout, a.Stderr, a.Stdin = &out, &log, strings.NewReader("")
	code := a.Run(context.Background(), args)
	return code, out.String(), log.String()
}

// refused runs a command line that has to end with exit code 2 and say says.
func refused(t *testing.T, app *App, says string, args ...string) {
	t.Helper()
	if code, _, log := run(app, args...); code != 2 || !strings.Contains(log, says) {
		t.Errorf("gpc %s: exit code %d, %q; want 2 and %q", strings.Join(args, " "), code, log, says)
	}
}

func TestBadUsageAndInputEndWithCodeTwoAndSayWhat(t *testing.T) {
	app, file := cart(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.OK(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	whole := require.Get(os.ReadFile(file))(t)
	truncated := write("truncated.safetensors", string(whole[:len(whole)/2]))
	good := write("state.json", `{"s":[0.2,0.1],"c":[0]}`)
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"unknown command", []string{"fly"}, "fly"},
		{"unknown flag", []string{"cases", "--fast"}, "--fast"},
		{"unknown case", []string{"eval", "boat"}, "boat"},
		{"unknown method", []string{"eval", "cart", "--method", "magic", "--model", file}, "magic"},
		{"unknown backend", []string{"refine", "cart", "--backend", "abacus", "--model", file, "--state", good}, "abacus"},
		{"backend that is not here", []string{"refine", "cart", "--backend", "cuda", "--model", file, "--state", good}, "CUDA"},
		{"missing argument", []string{"eval"}, "argument"},
		{"a new module where there is something", []string{"new", dir, "--name", "crane"}, "holds nan.json already"},
		{"a new module where none can be", []string{"new", "/proc/crane"}, "takes no new file"},
		{"an export where none can be", []string{"export", file, "--map-only", "--c", "/proc/gpc/c"}, "takes no new file"},
		{"a new module of a bad name", []string{"new", filepath.Join(dir, "n"), "--name", "My Crane"}, `"My Crane"`},
		{"a new module from no checkout", []string{"new", filepath.Join(dir, "n"), "--source", dir}, "no checkout"},
		{"no candidates", []string{"refine", "cart", "--candidates", "0", "--model", file, "--state", good}, "--candidates 0"},
		{"no episodes", []string{"eval", "cart", "--episodes", "0", "--model", file}, "--episodes 0"},
		{"bad shard", []string{"eval", "cart", "--shard", "3/2", "--model", file}, "3/2"},
		{"resume without a trace", []string{"eval", "cart", "--resume", "--model", file}, "--trace"},
		{"negative noise", []string{"eval", "cart", "--noise", "-1", "--model", file}, "--noise"},
		{"negative bias", []string{"eval", "cart", "--bias", "-1", "--model", file}, "--bias"},
		{"a plant without parameters", []string{"eval", "cart", "--shift", "mass=1.1", "--model", file}, "no parameters"},
		{"a shift without a factor", []string{"eval", "cart", "--shift", "mass", "--model", file}, "NAME=FACTOR"},
		{"a delay of less than nothing", []string{"eval", "cart", "--delay", "-1", "--model", file}, "-1 periods"},
		{"a part of a period of no differential equation", []string{"compile", "cart", "--out", good + "2", "--delay", "0.5"}, "a whole number"},
		{"a plant that there is not", []string{"compile", "cart", "--out", good + "2", "--plant", "boat"}, "--plant"},
		{"a plant without parameters", []string{"compile", "cart", "--out", good + "2", "--plant", "mass=2"}, "no parameters of its plant"},
		{"episodes in a plant that there is not", []string{"eval", "cart", "--plant", "boat", "--model", file}, "--plant"},
		{"a longer stretch of a plant that ends", []string{"eval", "cart", "--steps", "9", "--model", file}, "the episodes of case cart end after"},
		{"a decision of no time", []string{"eval", "cart", "--computing", "0s", "--model", file}, "--computing 0s"},
		{"a tail below the median", []string{"eval", "cart", "--computing", "2ms,1ms", "--model", file}, "the second at least the first"},
		{"a time of a method that is not compared", []string{"eval", "pair", "cart", "--methods", "direct", "--computing", "nmpc=2ms", "--model", file}, "--computing names the method nmpc"},
		{"half a guard", []string{"eval", "cart", "--guard", "half", "--model", file}, "--guard half"},
		{"a tightened guard that is off", []string{"steer", "cart", "--guard", "off", "--guard-tighten", "0.1", "--model", file}, "--guard-tighten 0.1"},
		{"a deadline of a guard that is off", []string{"eval", "cart", "--guard", "off", "--guard-deadline", "5ms", "--model", file}, "--guard-deadline 5ms"},
		{"a deadline of less than nothing", []string{"eval", "pair", "cart", "--methods", "direct", "--guard-deadline", "-5ms", "--model", file}, "--guard-deadline -5ms"},
		{"a guard tightened by less than nothing", []string{"eval", "pair", "cart", "--methods", "direct", "--guard-tighten", "-1", "--model", file}, "noise -1"},
		{"a pair of nothing", []string{"eval", "pair", "cart", "--model", file}, "--methods"},
		{"a pair of an unknown method", []string{"eval", "pair", "cart", "--methods", "direct,magic", "--model", file}, "magic"},
		{"a pair of one method", []string{"eval", "pair", "cart", "--methods", "direct,direct", "--model", file}, "method direct is named twice"},
		{"a method twice, with fewer episodes", []string{"eval", "pair", "cart", "--methods", "direct,hold,direct:2", "--model", file}, "method direct is named twice"},
		{"a first constant of no number", []string{"eval", "pair", "cart", "--methods", "gpc", "--first-constant", "epsilon", "--model", file}, "--first-constant \"epsilon\": want NAME=VALUE"},
		{"a constant twice", []string{"eval", "pair", "cart", "--methods", "gpc", "--constant", "epsilon=0.05", "--constant", "epsilon=0.05", "--model", file}, "method gpc is named twice"},
		{"a group twice", []string{"methods", "cart", "--group", "map,map"}, "--group names map twice"},
		{"a dataset twice", []string{"train", "cart", "--data", dir + "," + dir + "/", "--out", filepath.Join(dir, "m")}, "--data names " + dir + " twice"},
		{"an axis twice", []string{"dataset", "cart", "--range", "a=0:1", "--range", "a=0:2", "--scenarios", "2", "--out", filepath.Join(dir, "d")}, "--range names a twice"},
		{"a trace beside itself", []string{"eval", "compare", good, good}, "names " + good + " twice"},
		{"an operation twice", []string{"bench", "gemm", "gemm"}, "bench names gemm twice"},
		{"a batch twice", []string{"bench", "gemm", "--batch", "2,2"}, "--batch names 2 twice"},
		{"a pair with too many episodes", []string{"eval", "pair", "cart", "--methods", "direct,gpc:9", "--episodes", "3", "--model", file}, "9 episodes"},
		{"a pair with no number of episodes", []string{"eval", "pair", "cart", "--methods", "direct:few", "--model", file}, "NAME[@CANDIDATES][:EPISODES]"},
		{"weights off the simplex", []string{"eval", "cart", "--preference", "0.2,0.2", "--model", file}, "sum"},
		{"too many weights", []string{"eval", "cart", "--preference", "0.5,0.25,0.25", "--model", file}, "3 weights"},
		{"no bundled model", []string{"eval", "cart"}, "--model"},
		{"missing model", []string{"eval", "cart", "--model", filepath.Join(dir, "none")}, "none"},
		{"truncated model", []string{"eval", "cart", "--model", truncated}, "truncated.safetensors"},
		{"not a model", []string{"eval", "cart", "--model", good}, "state.json"},
		{"NaN in a state", []string{"refine", "cart", "--model", file, "--state", write("nan.json", `{"s":[NaN,0],"c":[0]}`)}, "nan.json"},
		{"short state", []string{"refine", "cart", "--model", file, "--state", write("short.json", `{"s":[1],"c":[0]}`)}, "short.json"},
		{"missing state", []string{"refine", "cart", "--model", file, "--state", filepath.Join(dir, "nowhere.json")}, "nowhere.json"},
		{"dataset without a folder", []string{"dataset", "cart", "--scenarios", "2"}, "--out"},
		{"a method distilled without a map", []string{"dataset", "cart", "--distil", "direct", "--scenarios", "2", "--out", filepath.Join(dir, "d")}, "--policy"},
		{"an unknown method distilled", []string{"dataset", "cart", "--distil", "magic", "--policy", file, "--scenarios", "2", "--out", filepath.Join(dir, "d")}, "magic"},
		{"a regime of no episodes", []string{"dataset", "cart", "--regime", "ice", "--scenarios", "2", "--out", filepath.Join(dir, "d")}, "--regime ice"},
		{"a regime that the plant has not", []string{"dataset", "cart", "--regime", "ice", "--distil", "direct", "--policy", file, "--scenarios", "2", "--out", filepath.Join(dir, "d")}, "ice"},
		{"train without data", []string{"train", "cart", "--out", "m"}, "--data"},
		{"train on no dataset", []string{"train", "cart", "--data", dir, "--out", filepath.Join(dir, "m")}, dir},
		{"bench of nothing", []string{"bench", "sorting"}, "sorting"},
		{"bench of no batch", []string{"bench", "gemm", "--batch", "0"}, "--batch 0"},
		{"export without a folder", []string{"export", file}, "--c"},
		{"export of no map", []string{"export", "boat", "--c", filepath.Join(dir, "c")}, "boat"},
		{"export of a case without a bundled map", []string{"export", "cart", "--c", filepath.Join(dir, "c")}, "case cart has no bundled map"},
		{"export of a truncated map", []string{"export", truncated, "--c", filepath.Join(dir, "c")}, "truncated.safetensors"},
		{"export of no records", []string{"export", file, "--c", filepath.Join(dir, "c"), "--map-only", "--records", "0"}, "--records 0: want 1 to 65536"},
		{"export to a folder with files", []string{"export", file, "--map-only", "--c", dir}, dir},
		{"export to a file", []string{"export", file, "--map-only", "--c", good}, "state.json"},
		{"export of the whole of a case without equations", []string{"export", file, "--c", filepath.Join(dir, "c")}, "--map-only"},
		{"serve without a door", []string{"serve", "cart", "--model", file}, "--stdin, --listen"},
		{"serve to other machines without a token", []string{"serve", "cart", "--model", file, "--listen", "0.0.0.0:0"}, "token"},
		{"a short token", []string{"serve", "cart", "--model", file, "--listen", "127.0.0.1:0", "--token-file", write("token", "secret\n")}, "16 to"},
		{"a token without HTTP", []string{"serve", "cart", "--model", file, "--stdin", "--token-file", good}, "--token-file needs --listen"},
		{"lines without standard input", []string{"serve", "cart", "--model", file, "--listen", "127.0.0.1:0", "--line-bytes", "100"}, "--line-bytes needs --stdin"},
		{"a certificate without its key", []string{"serve", "cart", "--model", file, "--listen", "127.0.0.1:0", "--tls-cert", good}, "--tls-cert and --tls-key"},
		{"a certificate for a socket", []string{"serve", "cart", "--model", file, "--unix", filepath.Join(dir, "s"), "--tls-cert", good, "--tls-key", good}, "--tls-cert needs --listen"},
		{"no certificate", []string{"serve", "cart", "--model", file, "--listen", "127.0.0.1:0", "--tls-cert", good, "--tls-key", good}, "certificate"},
		{"a socket where there is a file", []string{"serve", "cart", "--model", file, "--unix", good}, "is not a socket"},
		{"sessions of another format", []string{"serve", "cart", "--model", file, "--stdin", "--state-file", good}, "state.json"},
		{"sessions in the place of the map", []string{"serve", "cart", "--model", file, "--stdin", "--state-file", file}, "--state-file"},
		{"no number may wait", []string{"serve", "cart", "--model", file, "--listen", "127.0.0.1:0", "--waiting", "-1"}, `or "measured"`},
		{"how many may wait without HTTP", []string{"serve", "cart", "--model", file, "--stdin", "--waiting", "measured"}, "--waiting needs --listen"},
		{"a log of no kind", []string{"serve", "cart", "--model", file, "--stdin", "--log", "loud"}, "--log loud"},
		{"a plant without a server", []string{"plant", "cart"}, "--connect"},
		{"a plant at no address", []string{"plant", "cart", "--connect", "8080"}, "http://HOST:PORT"},
		{"verify no trace", []string{"verify", good}, "state.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, log := run(app, c.args...)
			if code != 2 {
				t.Errorf("exit code %d, want 2; stderr: %s", code, log)
			}
			if !strings.Contains(log, c.says) {
				t.Errorf("stderr %q does not name %q", log, c.says)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "m")); err == nil {
		t.Error("a model was written by a training that failed")
	}
}

func TestExportSaysWhatItWrote(t *testing.T) {
	app, file := cart(t)
	dir := filepath.Join(t.TempDir(), "c")
	code, out, log := run(app, "export", file, "--map-only", "--c", dir, "--half", "--records", "6", "--json")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	var result struct {
		Case, Dir, Symbol, SHA256, Base string
		Half                            bool
		ConstantBytes                   int `json:"constant_bytes"`
		Records                         int
	}
	require.OK(t, json.Unmarshal([]byte(out), &result))
	if result.Case != "cart" || result.Dir != dir || result.Symbol != "cart" || len(result.SHA256) != 64 || result.Base != "copied" || !result.Half || result.ConstantBytes == 0 || result.Records != 6 {
		t.Errorf("export printed %+v", result)
	}
	for _, name := range []string{"gpc_cart.h", "gpc_cart.c", "gpc_cart_weights.h", "main_test.c", "test_vectors.h", "README.md"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExportSaysWhatItLacks(t *testing.T) {
	app, file := cart(t)
	to := filepath.Join(t.TempDir(), "c")
	refused(t, &App{}, file+` is a map of another program's case: unknown case "cart"`, "export", file, "--c", to)
	refused(t, app, "crane.json is a system, which has no map: give the map's file and --case", "export", "../equations/systemfile/testdata/crane.json", "--c", to)
	refused(t, app, "is a file, want a folder", "export", file, "--map-only", "--c", file)
	broken := filepath.Join(t.TempDir(), "broken.json")
	require.OK(t, os.WriteFile(broken, []byte(`{"gpc_system"`), 0o644))
	for _, method := range []string{"nmpc", "search-512"} {
		refused(t, app, "the file is not JSON", "export", broken, "--method", method, "--c", to)
	}
	t.Chdir(t.TempDir())
	require.OK(t, os.WriteFile("cart", []byte("the program of a module, whose name is that of its case"), 0o755))
	refused(t, app, "case cart has no bundled map", "export", "cart", "--c", to)
}

func TestAnAlteredTraceDoesNotVerify(t *testing.T) {
	app, file := cart(t)
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	code, out, log := run(app, "eval", "cart", "--method", "direct", "--episodes", "3", "--seed", "4", "--model", file, "--trace", path, "--json")
	if code != 0 {
		t.Fatalf("eval: exit code %d: %s", code, log)
	}
	var result struct {
		Case, Method string
		Episodes     int
		CI95         struct{ Safe [2]float64 }        `json:"ci95"`
		Latency      struct{ P50, P95, P99 *float64 } `json:"latency_us"`
	}
	require.OK(t, json.Unmarshal([]byte(out), &result))
	if result.Case != "cart" || result.Method != "direct" || result.Episodes != 3 || result.Latency.P50 == nil || result.CI95.Safe[1] <= result.CI95.Safe[0] {
		t.Errorf("eval printed %+v", result)
	}
	if code, _, log := run(app, "verify", path); code != 0 {
		t.Fatalf("the trace as written: exit code %d: %s", code, log)
	}
	text := require.Get(os.ReadFile(path))(t)
	for _, key := range []string{"u", "margin", "s"} {
		lines := bytes.Split(text, []byte("\n"))
		var line map[string]any
		require.OK(t, json.Unmarshal(lines[3], &line))
		switch v := line[key].(type) {
		case []any:
			v[0] = v[0].(float64) + 1e-3
		case float64:
			line[key] = v + 1e-3
		default:
			t.Fatalf("the line has no %s: %s", key, lines[3])
		}
		lines[3] = require.Get(json.Marshal(line))(t)
		altered := filepath.Join(t.TempDir(), "altered.jsonl")
		require.OK(t, os.WriteFile(altered, bytes.Join(lines, []byte("\n")), 0o644))
		if code, out, _ := run(app, "verify", altered); code != 1 || !strings.Contains(out, key) {
			t.Errorf("%s altered: exit code %d, want 1; it said %s", key, code, out)
		}
	}
}

func TestJSONIsOneObjectOnStdout(t *testing.T) {
	app, file := cart(t)
	state := filepath.Join(t.TempDir(), "s.json")
	require.OK(t, os.WriteFile(state, []byte(`{"s":[0.2,0.1],"c":[0]}`), 0o644))
	for _, args := range [][]string{
		{"cases"},
		{"doctor"},
		{"new", filepath.Join(t.TempDir(), "crane")},
		{"refine", "cart", "--candidates", "64", "--model", file, "--state", state},
		{"bench", "gemm", "eig", "--batch", "2", "--case", "integrator", "--time", "1ms"},
		{"dataset", "cart", "--scenarios", "3", "--weights", "1", "--out", filepath.Join(t.TempDir(), "d")},
		{"eval", "pair", "cart", "--methods", "direct,gpc:1", "--episodes", "2", "--model", file},
		{"steer", "cart", "--divisions", "2", "--episodes", "1", "--model", file},
	} {
		code, out, log := run(app, append(args, "--json")...)
		if code != 0 {
			t.Errorf("%v: exit code %d: %s", args, code, log)
			continue
		}
		dec := json.NewDecoder(strings.NewReader(out))
		var object map[string]any
		if err := dec.Decode(&object); err != nil {
			t.Errorf("%v: %v", args, err)
		}
		if dec.More() {
			t.Errorf("%v: more than one value on stdout", args)
		}
	}
}

// What a method of the navigator decides becomes a dataset without a solver, and a map
// is trained on it that begins from the one it was made with.
func TestAPolicyIsDistilledIntoItsMap(t *testing.T) {
	app, file := cart(t)
	app.Cases[0].Solver = nil
	app.Cases[0].Problem.Spec().Training.Latent = 9
	dir := t.TempDir()
	data, out := filepath.Join(dir, "data"), filepath.Join(dir, "map")
	code, _, log := run(app, "dataset", "cart", "--policy", file, "--distil", "refine-64", "--scenarios", "6", "--weights", "1", "--out", data)
	if code != 0 {
		t.Fatalf("dataset: exit code %d: %s", code, log)
	}
	d := require.Get(dataset.Open(data))(t)
	if p := d.Header.Provenance; !p.Distilled || p.Policy.Method != "refine-64" || d.Rows() != 6*2*8 {
		t.Errorf("%d rows of provenance %+v, want 8 decisions under 2 preferences in 6 episodes", d.Rows(), p)
	}
	code, _, log = run(app, "train", "cart", "--data", data, "--init", file, "--epochs", "1", "--rollout-epochs", "1", "--batch", "16", "--lr", "0.001", "--out", out)
	if code != 0 {
		t.Fatalf("train: exit code %d: %s", code, log)
	}
	require.Get(app.Catalogue.All()[0].Model(out))(t)
}

// A new module says what is left to do where what it requires may be nowhere to download.
func TestNewSaysWhatACheckoutNeeds(t *testing.T) {
	app, _ := cart(t)
	for _, source := range []string{"", ".."} {
		dir := filepath.Join(t.TempDir(), "crane")
		args := []string{"new", dir}
		if source != "" {
			args = append(args, "--source", source)
		}
		code, out, log := run(app, args...)
		if code != 0 || !strings.Contains(out, "system.go") || strings.Contains(out, "go mod edit -replace") != (source == "") {
			t.Errorf("with the source %q: exit code %d, %s%s", source, code, out, log)
		}
		mod := string(require.Get(os.ReadFile(filepath.Join(dir, "go.mod")))(t))
		if checkout := require.Get(filepath.Abs(".."))(t); strings.Contains(mod, `replace github.com/gpc-engine/gpc => "`+checkout+`"`) != (source != "") {
			t.Errorf("with the source %q go.mod is\n%s", source, mod)
		}
	}
}

// What an evaluation prints: two tables, an open end of an interval as a dash, draws left
// out, what an oracle's starts say, and the first of many unsafe episodes.
func TestEvaluationIsPrinted(t *testing.T) {
	none := closedloop.Number(math.NaN())
	r := closedloop.Result{Case: "cart", Method: "oracle", Seed: 4, Episodes: 8, Safe: 0.25, Failed: 3, MarginMin: -0.5, Tolerance: 1e-5, GapPct: 0.6, GapSEM: 0.1, Excluded: 2}
	r.Regret = closedloop.RegretStatistics{N: 2, Mean: 0.5, MeanCI95: closedloop.OpenInterval{0.25, 0.75}, Median: 0.375, MedianCI95: closedloop.OpenInterval{none, none},
		P90: 0.625, P90CI95: closedloop.OpenInterval{0.125, none}, Max: 0.875, BeyondCI95: closedloop.Interval{0, 0.8419}}
	r.Starts = &closedloop.StartStatistics{Solves: 64, Converged: 1, Best: 0.75, GapPct: r.Regret}
	for i := range 6 {
		r.Unsafe = append(r.Unsafe, closedloop.UnsafeEpisode{Episode: i, Cause: "decision 2: the state is lost"})
	}
	fields := func(line string) string { return strings.Join(strings.Fields(line), " ") }
	for _, regrets := range []bool{true, false} {
		if !regrets {
			r.Regret, r.Starts = closedloop.RegretStatistics{}, nil
		}
		var out bytes.Buffer
		RenderEvaluation(&out, []*closedloop.Result{&r})
		var lines []string
		for line := range strings.Lines(out.String()) {
			lines = append(lines, fields(line))
		}
		want := []string{"case method episodes safe 95 % interval failed min margin tolerance fallbacks p50 µs p99 µs first p50 µs mean ‖Δz‖", "cart oracle 8 0.2500 [0.0000, 0.0000] 3 -5.00e-01 1e-05 0 – – – 0.00e+00"}
		if regrets {
			want = append(want, "regret % n mean 95 % interval median 95 % interval p90 95 % interval max above max % gap % ± s.e.m.",
				"oracle 2 0.5000 [0.2500, 0.7500] 0.3750 [–, –] 0.6250 [0.1250, –] 0.8750 ≤ 84.19 0.6000 0.1000",
				"cart: 2 of 10 draws were left out before any method ran",
				"cart oracle: of 64 solves 1.0000 converged, of these 0.7500 to within 0.01 % of their episode's best; the worst lies above it by 0.5000 % in the mean [0.2500, 0.7500], at most 0.8750 %")
		} else {
			want = append(want, "cart: 2 of 10 draws were left out before any method ran")
		}
		for i := range unsafeListed {
			want = append(want, fmt.Sprintf("oracle unsafe: seed 4, episode %d: decision 2: the state is lost", i))
		}
		want = append(want, "oracle: and 1 more; --json lists all")
		if !regrets {
			want = append(want, "oracle: regret is over 0 of 8 episodes, which are safe and have a reference")
		}
		if !slices.Equal(lines, want) {
			t.Errorf("printed\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
		}
	}
}

// What is said of a case and not of a method is said once for its methods, and a value that is
// rounded to zero has no sign.
func TestSeveralMethodsOfACaseArePrintedTogether(t *testing.T) {
	var results []*closedloop.Result
	for _, method := range []string{"navigator", "hold", "mpc"} {
		results = append(results, &closedloop.Result{Case: "cart", Method: method, Episodes: 8, Excluded: 2, Regret: closedloop.RegretStatistics{N: 8, Mean: -1e-9}})
	}
	results = append(results, &closedloop.Result{Case: "cart", Method: "late", Episodes: 8, Excluded: 3, Safe: 1, MarginMin: -3.91e-6, Tolerance: 1e-5})
	var out bytes.Buffer
	RenderEvaluation(&out, results)
	if within := "late: safe, since no margin is below −1e-05, the tolerance of the case; the least is -3.91e-06\n"; !strings.Contains(out.String(), within) {
		t.Errorf("printed\n%s\nwithout %q", out.String(), within)
	}
	if text := out.String(); strings.Count(text, "cart: 2 of 10 draws") != 1 || strings.Count(text, "cart: 3 of 11 draws") != 1 || strings.Contains(text, "-0.0000") {
		t.Errorf("printed\n%s", text)
	}
}

// A case of one's own is measured against rows that it has not written.
func TestGenericMethodsOfACase(t *testing.T) {
	app, _ := cart(t)
	code, out, log := run(app, "methods", "cart", "--all", "--bundled", "--names")
	if code != 0 || !strings.HasSuffix(out, "oracle\nhold\nonline\nmpc-5\nnmpc\nnmpc-from-8\nnmpc-ahead\nmppi-512\nmppi-4096\n") {
		t.Errorf("exit code %d, %q, %s", code, out, log)
	}
	// Without --all those to choose from; of a group all of it.
	if code, out, log = run(app, "methods", "cart", "--names"); code != 0 || out != "navigator\ndirect\nrefine-64\nhold\nonline\nnmpc\n" {
		t.Errorf("to choose from: exit code %d, %q, %s", code, out, log)
	}
	if code, out, log = run(app, "methods", "cart", "--group", "exact", "--names"); code != 0 || out != "oracle\n" {
		t.Errorf("exact ones: exit code %d, %q, %s", code, out, log)
	}
	if _, out, _ = run(app, "methods", "cart"); !strings.Contains(out, " more with --all") {
		t.Errorf("%q does not say that there are more", out)
	}
	for _, method := range []string{"oracle", "hold", "online", "mpc-3", "nmpc", "nmpc-from-2", "nmpc-ahead", "mppi-64"} {
		if code, out, log := run(app, "eval", "cart", "--method", method, "--episodes", "2", "--preference", "0.5,0.5"); code != 0 || !strings.Contains(out, method) {
			t.Errorf("%s: exit code %d, %q, %s", method, code, out, log)
		}
	}
	if code, _, log := run(app, "eval", "cart", "--method", "mpc-9"); code != 2 || !strings.Contains(log, "mpc-9") || !strings.Contains(log, "did you mean mpc-5?") {
		t.Errorf("more look-ahead than an episode has decisions: exit code %d, %s", code, log)
	}
}

// A limit on the machine's load is refused where it is no number, and refuses to record
// where any load is above it; the record has the load.
func TestMaxLoad(t *testing.T) {
	if _, err := os.Stat("/proc/loadavg"); err != nil {
		t.Skip("this system does not say how busy it is")
	}
	app, file := cart(t)
	eval := func(more ...string) (int, string, string) {
		return run(app, append([]string{"eval", "cart", "--method", "direct", "--episodes", "1", "--model", file, "--json"}, more...)...)
	}
	for _, bad := range []string{"-1", "NaN", "x"} {
		if code, _, log := eval("--max-load", bad); code != 2 || !strings.Contains(log, "max-load") {
			t.Errorf("--max-load %s: exit code %d, %s", bad, code, log)
		}
	}
	code, out, log := eval("--max-load", "1e6")
	var r struct {
		Load     *struct{ Limit float64 }
		Outcomes struct{ Cost []float64 }
	}
	require.OK(t, json.Unmarshal([]byte(out), &r))
	if code != 0 || r.Load == nil || r.Load.Limit != 1e6 || len(r.Outcomes.Cost) != 1 {
		t.Errorf("exit code %d, %s, printed %s", code, log, out)
	}
	recorded := filepath.Join(t.TempDir(), "run.json")
	require.OK(t, os.WriteFile(recorded, []byte(out), 0o644))
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	eval("--trace", trace)
	if code, out, log := run(app, "eval", "join", "cart", trace, "--runs", recorded, "--json"); code != 0 || !strings.Contains(out, `"limit":1e+06`) && !strings.Contains(out, `"limit":1000000`) {
		t.Errorf("a joined run has no load: exit code %d, %s, %s", code, log, out)
	}
	if code, _, log := run(app, "eval", "join", "cart", trace, "--runs", trace+"x"); code != 2 || !strings.Contains(log, "--runs") {
		t.Errorf("a record that is not there: exit code %d, %s", code, log)
	}
}

// Cases of a catalogue with groups are listed under these, a case is made when it is named, and a list makes all.
func TestCasesAreListedInGroupsAndMadeWhenNamed(t *testing.T) {
	app, _ := cart(t)
	made := 0
	app.Cases[0].Group = "second"
	app.Groups = []gpc.Group{{Name: "first", About: "of a plant"}, {Name: "second", About: "of a cart"}}
	app.Later = []gpc.Later{{Name: "later", Make: func() domain.Case {
		made++
		p := testdomain.NewCart(4)
		p.Spec().Name = "later"
		return domain.Case{Problem: p, Group: "first"}
	}}}
	for line, want := range map[string]int{"--help": 0, "methods cart": 0, "methods later": 1, "cases": 1} {
		made = 0
		if code, _, log := run(app, strings.Fields(line)...); code != 0 || made != want {
			t.Errorf("%s: exit code %d, made %d times, want %d: %s", line, code, made, want, log)
		}
	}
	_, out, _ := run(app, "cases")
	if i, j := strings.Index(out, "first: of a plant\ncase   "), strings.Index(out, "\nsecond: of a cart\ncase  "); i < 0 || j < i || !strings.Contains(out[:j], "\nlater ") || !strings.Contains(out[j:], "\ncart ") {
		t.Errorf("printed\n%s", out)
	}
	_, out, _ = run(app, "cases", "--json")
	if !strings.Contains(out, `"group":"first"`) || !strings.Contains(out, `"group":"second"`) {
		t.Errorf("printed %s", out)
	}
}

// called counts calls of a problem's functions.
type called struct {
	*testdomain.Cart
	calls *int
}

func (c called) Base(s, x, v []float64)         { *c.calls++; c.Cart.Base(s, x, v) }
func (c called) Project(s, x, u []float64) bool { *c.calls++; return c.Cart.Project(s, x, u) }
func (c called) Margins(s, x, u, m []float64) {
	*c.calls++
	c.Cart.Margins(s, x, u, m)
}

// Nothing of a case is computed before a command names it; a command that does checks it first.
func TestNoCaseIsAskedBeforeACommandNamesIt(t *testing.T) {
	calls := 0
	app := &App{Catalogue: gpc.Catalogue{Cases: []domain.Case{{Problem: called{testdomain.NewCart(3), &calls}}}}}
	for _, args := range [][]string{{"--help"}, {"--version"}, {"cases"}, {"eval", "--nosuch"}, {"eval", "another"}, {"__complete", "eval", "c"}, {"doctor"}} {
		if run(app, args...); calls != 0 {
			t.Errorf("%s: %d calls", strings.Join(args, " "), calls)
		}
		calls = 0
	}
	if run(app, "methods", "cart"); calls == 0 {
		t.Error("a case that a command names was not checked")
	}
	twice := &App{Catalogue: gpc.Catalogue{Cases: slices.Repeat(app.Cases, 2)}}
	refused(t, twice, `two cases are named "cart"`, "methods", "cart")
}

// Rows of --constant have the first method's constants, and their own in place of them.
func TestRowsOfConstantsHaveTheFirstMethods(t *testing.T) {
	methods := require.Get(withConstants([]gpc.Contender{{Method: "navigator"}, {Method: "direct"}}, "latent-step=5,epsilon=0.2", []string{"lie-gain=0", "epsilon=0.05,top-k=3"}))(t)
	var got []map[string]float64
	for _, m := range methods {
		got = append(got, m.Constants)
	}
	want := []map[string]float64{{"latent-step": 5, "epsilon": 0.2}, nil, {"latent-step": 5, "epsilon": 0.2, "lie-gain": 0}, {"latent-step": 5, "epsilon": 0.05, "top-k": 3}}
	if !slices.EqualFunc(got, want, maps.Equal) {
		t.Errorf("constants %v, want %v", got, want)
	}
}
