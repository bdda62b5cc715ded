// Command mutants changes one small thing of a package at a time, a comparison, a sign, a bound, an error that is
// returned, and runs the package's own short tests on it. What no test notices is a survivor: a test is missing, or
// the change means nothing. It samples the places by a seed, writes each result as it comes, and goes on from those.
//
//	go run ./lab/mutants [-n 40] [-seed 1] [-out build/mutants] PACKAGE...
//
// The central type is mutant. The kinds of changes are those of R. A. DeMillo, R. J. Lipton and F. G. Sayward, "Hints
// on test data selection" (1978). Nothing is written into the tree: a mutant is an overlay of the build.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// What became of a mutant. One that does not compile is none.
const (
	killed   = "killed"
	survived = "survived"
	slow     = "out of time" // counts as killed: its tests would never end
	invalid  = "invalid"
)

// Tests of a mutant have as many times what those of the package take, and no less than the least.
const (
	patience = 5
	least    = 3 * time.Minute // a machine may be busy
)

func main() {
	n := flag.Int("n", 40, "mutants a package at most")
	seed := flag.Uint64("seed", 1, "seed of the sample")
	out := flag.String("out", "build/mutants", "folder of results, a file a package; of what is in it survivors alone are tried again")
	flag.Parse()
	if err := run(flag.Args(), *n, *seed, *out); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// listed is a package as go list says.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	TestImports     []string
	Module          struct{ Path string }
}

func run(patterns []string, n int, seed uint64, out string) error {
	out, err := filepath.Abs(out)
	if err := errors.Join(err, os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	text, err := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,GoFiles,TestImports,Module"}, patterns...)...).Output()
	if err != nil {
		return fmt.Errorf("go list %s: %w", strings.Join(patterns, " "), err)
	}
	table := "| package | mutants | killed | survived | killed, % |\n|---|---|---|---|---|\n"
	for in := json.NewDecoder(strings.NewReader(string(text))); in.More(); {
		var p listed
		if err := in.Decode(&p); err != nil {
			return err
		}
		counts, err := p.sample(n, seed, out)
		if err != nil {
			return fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		dead := counts[killed] + counts[slow]
		all := dead + counts[survived]
		table += fmt.Sprintf("| %s | %d | %d | %d | %.0f |\n", p.name(), all, dead, counts[survived], 100*float64(dead)/float64(max(1, all)))
	}
	fmt.Print(table)
	return nil
}

func (p *listed) name() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
}

// sample tries mutants of a package in the order that the seed draws, until n of them compile, and counts what became
// of them.
func (p *listed) sample(n int, seed uint64, out string) (map[string]int, error) {
	h := fnv.New64()
	h.Write([]byte(p.ImportPath))
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	all, err := p.mutants(rng)
	if err != nil {
		return nil, err
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	path := filepath.Join(out, strings.ReplaceAll(p.name(), "/", "-")+".tsv")
	known, err := results(path)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	limit, err := p.limit()
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, m := range all {
		if counts[killed]+counts[slow]+counts[survived] == n {
			break
		}
		result := known[m.String()]
		if result == "" || result == survived { // there may be a test by now
			if result, err = p.try(m, limit, out); err != nil {
				return nil, err
			}
			fmt.Fprintf(os.Stderr, "%s: %s: %s\n", p.name(), m, result)
			if _, err := fmt.Fprintf(file, "%s\t%s\n", result, m); err != nil {
				return nil, err
			}
		}
		counts[result]++
	}
	return counts, nil
}

// results are those in a file, by mutant; none where there is no file.
func results(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	known := map[string]string{}
	for line := range strings.Lines(string(text)) {
		result, m, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		known[m] = result
	}
	return known, nil
}

// limit is how long the tests of a mutant may take. The package's own have to pass.
func (p *listed) limit() (time.Duration, error) {
	var began time.Time
	for range 2 { // the first builds what its time is not to have
		began = time.Now()
		if said, err := p.test("-count=1").CombinedOutput(); err != nil {
			return 0, fmt.Errorf("its tests fail as they are: %w\n%s", err, said)
		}
	}
	return max(least, patience*time.Since(began)), nil
}

func (p *listed) test(more ...string) *exec.Cmd {
	args := append(append([]string{"test", "-short", "-failfast", "-vet=off", "-ldflags=-s -w"}, more...), p.ImportPath)
	if slices.Contains(p.TestImports, "pgregory.net/rapid") {
		args = append(args, "-rapid.nofailfile") // what one mutant fails is no test of the next
	}
	return exec.Command("go", args...)
}

// try runs the package's tests on a mutant, whose text it puts into a folder.
func (p *listed) try(m mutant, limit time.Duration, folder string) (string, error) {
	text, err := os.ReadFile(m.Filename)
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(folder, "_mutant.go"), filepath.Join(folder, "overlay.json") // go list ignores the first
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {m.Filename: changed}})
	if err := errors.Join(err, os.WriteFile(changed, m.apply(text), 0o644), os.WriteFile(overlay, replace, 0o644)); err != nil {
		return "", err
	}
	said, err := p.test("-overlay", overlay, "-timeout", limit.String()).CombinedOutput()
	switch {
	case err == nil:
		return survived, nil
	case !errors.As(err, new(*exec.ExitError)):
		return "", err
	case strings.Contains(string(said), "[build failed]"):
		return invalid, nil
	case strings.Contains(string(said), "panic: test timed out"):
		return slow, nil
	}
	return killed, nil
}
