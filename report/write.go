package report

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/durable"
)

// Write writes dir/report.md, dir/report.html (self-contained) and
// dir/figures/*.svg, *.png and *.gif, and returns the files it wrote.
func (r *Records) Write(ctx context.Context, dir string) ([]string, error) {
	figures := r.Figures()
	images := filepath.Join(dir, "figures")
	if err := os.MkdirAll(images, 0o755); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	files := []string{filepath.Join(dir, "report.md"), filepath.Join(dir, "report.html")}
	for _, f := range figures {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := f.Write(images); err != nil {
			return nil, err
		}
		files = append(files, filepath.Join(images, f.Name+".svg"), filepath.Join(images, f.Name+".png"))
	}
	for _, t := range r.Traces {
		path := filepath.Join(images, t.Header.Case+"-"+t.Header.Method+".gif")
		wrote, err := Animate(ctx, t, path)
		if err != nil {
			return nil, err
		}
		if wrote {
			files = append(files, path)
		}
	}
	var md, page bytes.Buffer
	fmt.Fprintf(&md, "# gpc: recorded results, %s\n", r.Device)
	fmt.Fprintf(&page, "<!doctype html><html lang=en><meta charset=utf-8><title>gpc: results</title><style>%s</style><h1>gpc: recorded results, %s</h1>\n", style, html.EscapeString(r.Device))
	for _, k := range kinds {
		for _, s := range k.sections(r) {
			s.markdown(&md)
			s.html(&page)
		}
	}
	fmt.Fprint(&md, "\n## Figures\n\n")
	fmt.Fprint(&page, "<h2>Figures</h2><div class=figures>\n")
	for _, f := range figures {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		fmt.Fprintf(&md, "![%s](figures/%s.svg)\n", f.Title, f.Name)
		svg, err := f.SVG()
		if err != nil {
			return nil, err
		}
		// The figure stands inline: the page needs no other file.
		if i := bytes.Index(svg, []byte("<svg")); i > 0 {
			svg = svg[i:]
		}
		fmt.Fprintf(&page, "<figure>%s</figure>\n", svg)
	}
	fmt.Fprint(&page, "</div></html>\n")
	for path, data := range map[string][]byte{files[0]: md.Bytes(), files[1]: page.Bytes()} {
		if err := durable.WriteFile(path, data, 0o644); err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
	}
	return files, nil
}

const style = `body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#1b222a}
table{border-collapse:collapse;margin:1em 0;font-variant-numeric:tabular-nums}th,td{padding:.25em .7em;border-bottom:1px solid #dde2e7;text-align:right}
th:first-child,td:first-child{text-align:left}.figures{display:flex;flex-wrap:wrap;gap:1em}figure{margin:0}p.note{color:#5b6570}`

// section is one table with its heading and a note.
type section struct {
	title, note string
	rows        [][]string // the first is the header
}

func (s section) markdown(w *bytes.Buffer) {
	fmt.Fprintf(w, "\n## %s\n\n", s.title)
	if s.note != "" {
		fmt.Fprintf(w, "%s\n\n", s.note)
	}
	s.table(w)
}

func (s section) table(w *bytes.Buffer) {
	for i, r := range s.rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(r, " | "))
		if i == 0 {
			fmt.Fprintf(w, "|---%s|\n", strings.Repeat("|---:", len(r)-1))
		}
	}
}

func (s section) html(w *bytes.Buffer) {
	fmt.Fprintf(w, "<h2>%s</h2>\n", html.EscapeString(s.title))
	if s.note != "" {
		fmt.Fprintf(w, "<p class=note>%s</p>\n", html.EscapeString(s.note))
	}
	fmt.Fprint(w, "<table>")
	for i, r := range s.rows {
		tag := "td"
		if i == 0 {
			tag = "th"
		}
		fmt.Fprint(w, "<tr>")
		for _, c := range r {
			fmt.Fprintf(w, "<%s>%s</%s>", tag, html.EscapeString(c), tag)
		}
		fmt.Fprint(w, "</tr>")
	}
	fmt.Fprint(w, "</table>\n")
}

// evaluationSections are the tables of every case that was evaluated.
func (r *Records) evaluationSections() []section {
	var out []section
	for _, name := range r.named() {
		if evals := r.of(name); len(evals) > 0 && evals[0].Reached != nil {
			out = append(out, r.goalSection(name, evals))
			for _, e := range evals {
				if e.Method == highlighted && len(e.Unsafe) > 0 {
					out = append(out, unsafeSection(e))
				}
			}
		} else if len(evals) > 0 {
			out = append(out, r.evaluationSection(name, evals))
		}
		if evals := r.inRegimes(name); len(evals) > 0 {
			out = append(out, r.regimeSection(name, evals))
		}
		if evals := r.noisy(name); len(evals) > 0 {
			out = append(out, noiseSection(name, evals))
		}
	}
	return out
}

func number(format string, v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	text := fmt.Sprintf(format, v)
	if positive, ok := strings.CutPrefix(text, "-"); ok && strings.Trim(positive, "0.") == "" {
		return positive // rounded to zero
	}
	return text
}

// estimate is a value with its standard error.
func estimate(format string, v, sem closedloop.Number) string {
	if math.IsNaN(float64(v)) {
		return "–"
	}
	return number(format, float64(v)) + " ± " + number(format, float64(sem))
}

func (r *Records) evaluationSection(name string, evals []closedloop.Result) section {
	s := section{
		title: name,
		note:  fmt.Sprintf("Unseen episodes, seed %d, commit %s, %s. Regret over the completed, safe episodes (n). “paper”: tab. analytical, 100 trajectories; its MPC horizon is not stated.", evals[0].Seed, evals[0].Commit, evals[0].Device),
		rows:  [][]string{{"method", "R_T %", "± s.e.m.", "n", "paper R_T %", "safe", "95 % interval", "fail %", "paper fail %", "least margin", "p50 ms", "p99 ms", "paper ms", "mean ‖Δz‖"}},
	}
	for _, e := range evals {
		paperRegret, paperFail, paperTime := "–", "–", "–"
		if p := r.paper(name, e.Method); !math.IsNaN(p.Regret) {
			paperRegret, paperFail, paperTime = fmt.Sprintf("%g ± %g", p.Regret, p.RegretSEM), fmt.Sprintf("%g", 100-p.Safe), fmt.Sprintf("%g", p.Milliseconds)
		}
		s.rows = append(s.rows, []string{
			e.Method, number("%.4f", float64(e.RegretPct)), number("%.4f", float64(e.RegretSEM)), fmt.Sprint(e.RegretN), paperRegret,
			number("%.4f", float64(e.Safe)), fmt.Sprintf("[%.4f, %.4f]", e.CI95.Safe[0], e.CI95.Safe[1]),
			number("%.1f", 100*(1-float64(e.Safe))), paperFail, number("%.1e", float64(e.MarginMin)),
			number("%.4f", float64(e.Latency.P50)/1e3), number("%.4f", float64(e.Latency.P99)/1e3), paperTime, number("%.1e", float64(e.Displacement)),
		})
	}
	return s
}

// goalSection is the table of a case whose episodes have goals (tab.
// multiagent-navigation and multiagent-navigation-margins).
func (r *Records) goalSection(name string, evals []closedloop.Result) section {
	head := []string{"method", "episodes", "safe", "95 % interval", "collision-free", "reached", "at end", "gap %", "± s.e.m.", "n", "scene margin", "± s.e.m."}
	kinds := slices.Sorted(maps.Keys(evals[0].MarginsMean))
	head = append(append(head, kinds...), "p50 ms", "p99 ms")
	s := section{
		title: name,
		note:  fmt.Sprintf("Unseen episodes, seed %d, commit %s, %s. Safe: every robot reached its goal and no margin was violated. Gap: 100 (Σ cost − Σ reference)/Σ reference over the n safe episodes in which the 384-candidate reference was safe too. Margins: means over episodes of the smallest, m. %s", evals[0].Seed, evals[0].Commit, evals[0].Device, r.paperNote(name)),
		rows:  [][]string{head},
	}
	value := func(n *closedloop.Number) float64 {
		if n == nil {
			return math.NaN()
		}
		return float64(*n)
	}
	for _, e := range evals {
		row := []string{
			e.Method, fmt.Sprint(e.Episodes), number("%.4f", float64(e.Safe)), fmt.Sprintf("[%.4f, %.4f]", e.CI95.Safe[0], e.CI95.Safe[1]),
			number("%.4f", float64(e.CollisionFree)), number("%.4f", value(e.Reached)), number("%.4f", value(e.AtEnd)),
			number("%.3f", float64(e.GapPct)), number("%.3f", float64(e.GapSEM)), fmt.Sprint(e.RegretN), number("%.3f", float64(e.MarginMean)), number("%.3f", float64(e.MarginSEM)),
		}
		for _, kind := range kinds {
			m, ok := e.MarginsMean[kind]
			if !ok {
				m = closedloop.Number(math.NaN())
			}
			row = append(row, number("%.3f", float64(m)))
		}
		s.rows = append(s.rows, append(row, number("%.3f", float64(e.Latency.P50)/1e3), number("%.3f", float64(e.Latency.P99)/1e3)))
	}
	return s
}

// paperNote is what the paper has of a case with goals, in a sentence.
func (r *Records) paperNote(name string) string {
	own, reference := r.paper(name, highlighted), r.paper(name, "reference")
	if math.IsNaN(own.Gap) {
		return ""
	}
	return fmt.Sprintf("Paper: GPC safe %g %%, collision-free %g %%, gap %g %%, scene margin %g; reference safe %g %%.", own.Safe, own.Collision, own.Gap, own.Margin, reference.Safe)
}

// unsafeSection names every episode in which a method was not safe.
func unsafeSection(e closedloop.Result) section {
	s := section{
		title: fmt.Sprintf("%s: unsafe episodes of %s", e.Case, e.Method),
		note:  fmt.Sprintf("%d of %d, with what is known of the cause.", len(e.Unsafe), e.Episodes),
		rows:  [][]string{{"seed", "episode", "cause"}},
	}
	for _, u := range e.Unsafe {
		s.rows = append(s.rows, []string{fmt.Sprint(e.Seed), fmt.Sprint(u.Episode), u.Cause})
	}
	return s
}

func noiseSection(name string, evals []closedloop.Result) section {
	s := section{
		title: name + " with measurement noise",
		note:  "The measured state is disturbed; margins and costs are of the true state. The noise is in units of each state's own scale.",
		rows:  [][]string{{"noise", "method", "episodes", "R_T %", "± s.e.m.", "safe", "95 % interval", "least margin"}},
	}
	for _, e := range evals {
		s.rows = append(s.rows, []string{
			fmt.Sprint(e.Noise), e.Method, fmt.Sprint(e.Episodes), number("%.4f", float64(e.RegretPct)), number("%.4f", float64(e.RegretSEM)),
			number("%.4f", float64(e.Safe)), fmt.Sprintf("[%.4f, %.4f]", e.CI95.Safe[0], e.CI95.Safe[1]), number("%.1e", float64(e.MarginMin)),
		})
	}
	return s
}

func (r *Records) steeringSections() []section {
	if len(r.Steerings) == 0 {
		return nil
	}
	summary := section{
		title: "Steering by a fixed preference",
		note:  "One map of each case, no retraining. Regret is over the exact optimum of the same episodes under the same preference; hypervolumes are to the nadir of both fronts stretched by a tenth of the range, as shares of the box from there to their ideal.",
		rows:  SteeringSummaryRows(r.Steerings...),
	}
	return append([]section{summary}, each(r.Steerings, func(v closedloop.Steering) section {
		return section{title: fmt.Sprintf("%s: %s under each preference", v.Case, v.Method), rows: SteeringRows(&v)}
	})...)
}

func certificateSection(c batchnav.Certified) section {
	s := section{
		title: c.Certificate.Case + ": the paper's conditions on this map",
		note:  "Constants are estimated on held-out samples; a condition that does not hold says that the theorem gives no guarantee here, not that the controller failed.",
		rows:  [][]string{{"condition", "claim", "left", "right", "verdict", "note"}},
	}
	for _, v := range c.Certificate.Conditions {
		verdict := string(v.Verdict)
		if v.Verdict == batchnav.DoesNot {
			verdict = strings.ToUpper(verdict)
		}
		s.rows = append(s.rows, []string{v.Name, v.Claim, number("%.3g", float64(v.Left)), number("%.3g", float64(v.Right)), verdict, v.Note})
	}
	return s
}

func benchmarkSection(b Benchmark) section {
	return section{
		title: "Latency and throughput",
		note:  fmt.Sprintf("`%s`, commit %s, %s. The ceiling is the best sustained multiply-add loop of the same instruction set in the same run. Rates count every unit of a network; jacobian, metric and step leave the inactive ReLU units out, so that their fraction by this count can pass 1.", b.Command, b.Commit, b.Device),
		rows:  bench.Rows(b.Results),
	}
}
