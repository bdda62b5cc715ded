package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper"
)

// torture is a run of all attacks.
type torture struct {
	dir    string
	size   size
	rng    *rand.Rand // of the attack
	log    io.Writer
	works  []*work
	data   string // a dataset that is whole
	record *peerrecord.Torture
	known  []peerrecord.Attack // made by an interrupted run
	part   string              // the file that keeps what is made; "": none
	start  time.Time           // so long ago as all runs took
}

// begin adds a row, valid until the next one, and keeps those before. It is nil where an interrupted run has made the attack.
func (r *torture) begin(by, on, want string) *peerrecord.Attack {
	n := len(r.record.Attacks)
	if n > 0 {
		fmt.Fprintf(r.log, "%d of %d survived\n", r.record.Attacks[n-1].Survived, r.record.Attacks[n-1].Tried)
	}
	r.record.Seconds = time.Since(r.start).Seconds()
	if err := write(r.part, r.record); err != nil {
		fmt.Fprintln(r.log, "what was made is not kept:", err)
	}
	fmt.Fprintln(r.log, by+":", on)
	r.rng = rand.New(rand.NewPCG(r.record.Seed, uint64(n)))
	if n < len(r.known) {
		r.record.Attacks = append(r.record.Attacks, r.known[n])
		return nil
	}
	r.record.Attacks = append(r.record.Attacks, peerrecord.Attack{By: by, On: on, Want: want})
	return &r.record.Attacks[n]
}

// count adds one try; why is "" where it was survived.
func count(a *peerrecord.Attack, why string) {
	a.Tried++
	if why == "" {
		a.Survived++
		return
	}
	a.Lost = append(a.Lost, why)
}

// work is a command that writes: what it made is compared with what it makes undisturbed.
type work struct {
	name   string
	args   func(to string) []string
	resume string // flag that goes on with what is there; "": the command does so by itself
	exit   int    // code of a run that is whole: outages that break limits end with 1
	made   func(to string) (any, error)
	want   any
	took   time.Duration
}

// everything is the room of a disk that does not fill up.
const everything = -1

// gpc starts the program with so much room.
func (r *torture) gpc(room int, args ...string) (*exec.Cmd, *bytes.Buffer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	var log bytes.Buffer
	cmd := exec.Command(self, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.dir, &log, &log
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", environment, room))
	return cmd, &log, nil
}

// ended runs the program to its end, and gives its exit code and what it said.
func (r *torture) ended(room int, args ...string) (int, string, error) {
	cmd, log, err := r.gpc(room, args...)
	if err != nil {
		return 0, "", err
	}
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return 0, "", err
	}
	return cmd.ProcessState.ExitCode(), log.String(), nil
}

// place is a path that nothing was written to.
func (r *torture) place(name string) string {
	return filepath.Join(r.dir, fmt.Sprintf("%s-%016x", name, r.rng.Uint64()))
}

// prepare makes what the attacks are about, undisturbed.
func (r *torture) prepare() error {
	r.data = r.place("data")
	// The command of a model is how it was made, a resumed one with --resume: not its content.
	trained := func(to string) (any, error) {
		m, err := model.ReadFile(to)
		if err == nil {
			m.Provenance.Command = ""
		}
		return m, err
	}
	r.works = []*work{
		{name: "dataset", args: func(to string) []string {
			return []string{"dataset", "opf30", "--scenarios", "12", "--weights", "1", "--chunk", "2", "--seed", "991", "--out", to}
		}, made: func(to string) (any, error) {
			d, err := dataset.Open(to)
			if err == nil {
				err = d.Verify()
			}
			if err != nil {
				return nil, err
			}
			return d.Hash(), nil
		}},
		{name: "train", args: func(to string) []string {
			return []string{"train", "opf30", "--data", r.data, "--epochs", "40", "--rollout-epochs", "4", "--hidden", "32", "--latent", "4", "--batch", "64", "--seed", "991", "--out", to}
		}, resume: "--resume", made: trained},
		{name: "eval --trace", args: func(to string) []string {
			return []string{"eval", "opf30", "--method", "direct", "--regime", "paper", "--episodes", "4", "--seed", "991", "--trace", to}
		}, resume: "--resume", made: func(to string) (any, error) {
			if code, log, err := r.ended(everything, "verify", to); err != nil || code != 0 {
				return nil, fmt.Errorf("verify ends with exit code %d: %s", code, errors.Join(err, errors.New(log)))
			}
			var costs []closedloop.Number
			_, err := closedloop.ReadEpisodes(context.Background(), to, func(e *closedloop.EpisodeRecord) error {
				costs = append(costs, e.End.Cost)
				return nil
			})
			return costs, err
		}},
		{name: "compile", args: func(to string) []string {
			return []string{"compile", "cartpole", "--rounds", "1", "--scenarios", "12", "--starts", "20", "--test-starts", "20", "--budget", "10h", "--target", "50%", "--tail", "1000%", "--out", to}
		}, made: trained},
		{name: "export", args: func(to string) []string {
			return []string{"export", "cartpole", "--episodes", "5", "--fmu", "--seed", "991", "--c", to}
		}, made: files},
		{name: "pf outages --record", args: func(to string) []string {
			return []string{"pf", "outages", "case118", "--outages", "pairs.txt", "--record", to}
		}, exit: 1, made: files},
		{name: "opf series", args: func(to string) []string {
			return []string{"opf", "series", "case118", "--loads", "days.csv", "--results", to}
		}, made: files},
	}
	var pairs, days strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&pairs, "branch %d, branch %d\n", 1+i%60, 100+i%83)
		fmt.Fprintf(&days, "%d,%g\n", i, 1+float64(i*7%13)/200)
	}
	err := errors.Join(os.WriteFile(filepath.Join(r.dir, "pairs.txt"), []byte(pairs.String()), 0o644), os.WriteFile(filepath.Join(r.dir, "days.csv"), []byte("time,scale\n"+days.String()), 0o644))
	if err != nil {
		return err
	}
	for _, w := range r.works {
		to := r.place("whole")
		if w.name == "dataset" {
			to = r.data
		}
		start := time.Now()
		if code, log, err := r.ended(everything, w.args(to)...); err != nil || code != w.exit {
			return fmt.Errorf("gpc %v: exit code %d, %v: %s", w.args(to), code, err, log)
		}
		w.took = time.Since(start)
		if w.want, err = w.made(to); err != nil {
			return err
		}
	}
	return nil
}

// files are those of a folder, with what is in them.
func files(to string) (any, error) {
	files := map[string]string{}
	return files, fs.WalkDir(os.DirFS(to), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(to, path))
		files[path] = string(text)
		return err
	})
}

// rerun runs a work to its end over the files that are there already.
func (r *torture) rerun(w *work, to string) (why string, err error) {
	args := w.args(to)
	if w.resume != "" {
		args = append(args, w.resume)
	}
	code, _, err := r.ended(everything, args...)
	if err != nil {
		return "", err
	}
	if got, err := w.made(to); code != w.exit && (err != nil || !reflect.DeepEqual(got, w.want)) { // a folder that is there is refused
		// What was ended before its first record has nothing to resume.
		if code, log, err := r.ended(everything, w.args(to)...); err != nil || code != w.exit {
			return fmt.Sprintf("the command does not go on, exit code %d: %s", code, log), err
		}
	}
	got, err := w.made(to)
	if err != nil {
		return err.Error(), nil
	}
	if !reflect.DeepEqual(got, w.want) {
		return "the result differs from that of an undisturbed run", nil
	}
	left, err := remains(to)
	if err == nil && left != "" {
		return "a temporary file is left: " + left, nil
	}
	return "", err
}

// remains is a temporary or lock file at or beside a path.
func remains(to string) (found string, err error) {
	err = filepath.WalkDir(filepath.Dir(to), func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		if err == nil && (strings.HasSuffix(name, ".partial") || strings.HasSuffix(name, ".lock")) && strings.Contains(path, filepath.Base(to)) {
			found = path
		}
		return err
	})
	return found, err
}

// kill ends commands at random moments, up to three times, and lets them go on.
func (r *torture) kill() error {
	for _, w := range r.works {
		a := r.begin("kill at a random moment, then the same command again", w.name, "the result of an undisturbed run, no file left over")
		if a == nil {
			continue
		}
		for range r.size.kills {
			to := r.place("killed")
			for times := 1 + r.rng.IntN(3); times > 0; times-- {
				args := w.args(to)
				if w.resume != "" && exists(to) {
					args = append(args, w.resume)
				}
				cmd, _, err := r.gpc(everything, args...)
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					return err
				}
				time.Sleep(time.Duration(r.rng.Int64N(int64(w.took))))
				_ = cmd.Process.Kill() // it may have ended
				_ = cmd.Wait()
			}
			why, err := r.rerun(w, to)
			if err != nil {
				return err
			}
			count(a, why)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// fill lets the disk be full at each operation on a file in turn.
func (r *torture) fill() error {
	for _, w := range r.works {
		a := r.begin("disk full from the n-th write on, for every n", w.name, "exit code 1 that says so; the same command then gives the result of an undisturbed run")
		if a == nil {
			continue
		}
		for n := 0; n < r.size.full; n++ {
			to := r.place("full")
			code, log, err := r.ended(n, w.args(to)...)
			if err != nil {
				return err
			}
			if code == w.exit && !strings.Contains(log, "no space left") {
				break // it has enough room
			}
			if code != 1 || !strings.Contains(log, "no space left") {
				count(a, fmt.Sprintf("n = %d: exit code %d: %s", n, code, log))
				continue
			}
			why, err := r.rerun(w, to)
			if err != nil {
				return err
			}
			if why != "" {
				why = fmt.Sprintf("n = %d: %s", n, why)
			}
			count(a, why)
		}
	}
	return nil
}

// flip turns single bits of what commands read.
func (r *torture) flip() error {
	m, trace, part := r.place("model"), r.place("trace"), ""
	for i, to := range []string{1: m, 2: trace} {
		if to == "" {
			continue
		}
		if code, log, err := r.ended(everything, r.works[i].args(to)...); err != nil || code != 0 {
			return fmt.Errorf("exit code %d, %v: %s", code, err, log)
		}
	}
	// A checkpoint is what a killed training leaves.
	checkpoint := r.place("checked")
	for tries := 0; !exists(checkpoint + ".checkpoint"); tries++ {
		if tries == 50 {
			return errors.New("no interrupted training has left a checkpoint")
		}
		cmd, _, err := r.gpc(everything, r.works[1].args(checkpoint)...)
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(r.rng.Int64N(int64(r.works[1].took))))
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}
	parts, err := filepath.Glob(filepath.Join(r.data, "part-*.parquet"))
	if err != nil || len(parts) == 0 {
		return fmt.Errorf("no part in %s: %v", r.data, err)
	}
	part = parts[0]
	for _, f := range []struct {
		on, file string
		read     func(copied string) []string
	}{
		{"a dataset's samples", part, func(string) []string { return []string{"dataset", "merge", r.data, "--out", r.place("merged")} }},
		{"a dataset's header", filepath.Join(r.data, "dataset.json"), func(string) []string { return []string{"dataset", "merge", r.data, "--out", r.place("merged")} }},
		{"a dataset's manifest", strings.TrimSuffix(part, ".parquet") + ".json", func(string) []string { return []string{"dataset", "merge", r.data, "--out", r.place("merged")} }},
		{"a checkpoint", checkpoint + ".checkpoint", func(string) []string { return append(r.works[1].args(checkpoint), "--resume") }},
		{"a model", m, func(string) []string { return []string{"export", m, "--c", r.place("c"), "--records", "1"} }},
		{"a trace", trace, func(string) []string { return []string{"verify", trace} }},
	} {
		a := r.begin("one bit flipped", f.on, "refused, exit code 1 or 2 with a reason")
		if a == nil {
			continue
		}
		intact, err := os.ReadFile(f.file)
		if err != nil {
			return err
		}
		for range r.size.flips {
			damaged, at := bytes.Clone(intact), r.rng.IntN(8*len(intact))
			damaged[at/8] ^= 1 << (at % 8)
			if err := os.WriteFile(f.file, damaged, 0o644); err != nil {
				return err
			}
			code, log, err := r.ended(everything, f.read(f.file)...)
			if err != nil {
				return err
			}
			why := ""
			if code != 1 && code != 2 || log == "" || strings.Contains(log, "panic") || strings.Contains(log, "goroutine ") {
				why = fmt.Sprintf("bit %d of %d: exit code %d: %.200s", at, 8*len(intact), code, log)
			}
			count(a, why)
		}
		if err := os.WriteFile(f.file, intact, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// crowd lets three processes write to one place at once.
func (r *torture) crowd() error {
	const writers = 3
	for _, w := range r.works {
		a := r.begin("three processes on one output", w.name, "one writes the result of an undisturbed run, who came too early or late is refused with exit code 2")
		if a == nil {
			continue
		}
		for range r.size.writers {
			to := r.place("crowd")
			var cmds [writers]*exec.Cmd
			var logs [writers]*bytes.Buffer
			for i := range cmds {
				var err error
				if cmds[i], logs[i], err = r.gpc(everything, w.args(to)...); err == nil {
					err = cmds[i].Start()
				}
				if err != nil {
					return err
				}
			}
			done, why := 0, ""
			for i, cmd := range cmds {
				_ = cmd.Wait()
				switch code := cmd.ProcessState.ExitCode(); code {
				case w.exit:
					done++
				case 2:
				default:
					why = fmt.Sprintf("exit code %d: %s", code, logs[i])
				}
			}
			if done == 0 && why == "" {
				why = "all were refused"
			}
			if got, err := w.made(to); why == "" && err != nil {
				why = err.Error()
			} else if why == "" && !reflect.DeepEqual(got, w.want) {
				why = "the result differs from that of an undisturbed run"
			}
			count(a, why)
		}
	}
	return nil
}

// wrong are the ways in which a map is made wrong.
var wrong = []struct {
	name  string
	wrong func(w float32, rng *rand.Rand) float32
}{
	{"× 3", func(w float32, _ *rand.Rand) float32 { return 3 * w }},
	{"of another sign", func(w float32, _ *rand.Rand) float32 { return -w }},
	{"with noise as large", func(w float32, rng *rand.Rand) float32 { return w * (1 + float32(rng.NormFloat64())) }},
	{"0", func(float32, *rand.Rand) float32 { return 0 }},
}

// mislead drives closed loops by wrong maps and counts the decisions that broke a limit.
func (r *torture) mislead() error {
	cases := paper.Cases()
	for _, name := range r.size.cases {
		a := r.begin("decisions by a map whose weights are × 3, of another sign, noisy, 0", name, "no limit broken")
		if a == nil {
			continue
		}
		c, err := cases.Find(name)
		if err != nil {
			return err
		}
		for range r.size.loops {
			for _, how := range wrong {
				m, err := c.Model("")
				if err != nil {
					return err
				}
				nets := []*model.MLP{m.EncoderX, m.DecoderU, m.DecoderS}
				for _, net := range nets[:1+r.rng.IntN(len(nets))] {
					for l := range net.Layers {
						data := net.Layers[l].W.Data
						for i, w := range data {
							data[i] = how.wrong(w, r.rng)
						}
					}
				}
				file := r.place("wrong")
				if err := m.WriteFile(file); err != nil {
					return err
				}
				code, log, err := r.ended(everything, "eval", name, "--model", file, "--episodes", "2", "--seed", fmt.Sprint(r.rng.Uint32()), "--json")
				if err != nil {
					return err
				}
				var result struct{ Decisions, Violations, Failures int }
				at := strings.Index(log, `{"case"`)
				if code != 0 || at < 0 || json.NewDecoder(strings.NewReader(log[at:])).Decode(&result) != nil {
					count(a, fmt.Sprintf("weights %s: exit code %d: %s", how.name, code, log))
					continue
				}
				a.Tried += result.Decisions
				a.Survived += result.Decisions - result.Violations
				if result.Violations > 0 {
					a.Lost = append(a.Lost, fmt.Sprintf("weights %s: %d of %d decisions broke a limit", how.name, result.Violations, result.Decisions))
				}
			}
		}
	}
	return nil
}
