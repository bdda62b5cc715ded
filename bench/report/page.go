package report

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/internal/durable"
)

// section is one table with its heading and a note, and the figures and animations beside it.
type section struct {
	title, note string
	rows        [][]string // the first is the header; nil: no table
	figures     []*Figure
	traces      []*Trace // shown in motion
}

// chapter is what one sort of records or several give.
type chapter struct {
	title    string
	sections []section
}

// chapters are those of the report that have sections, all cases at a glance before them.
func (r *Records) chapters() (out []chapter) {
	if s := (devices{r}).glance(); len(s.rows) > 1 {
		out = append(out, chapter{"In short", []section{s}})
	}
	for _, k := range kinds {
		sections := k.sections(r)
		switch last := len(out) - 1; {
		case len(sections) == 0:
		case last >= 0 && out[last].title == k.chapter:
			out[last].sections = append(out[last].sections, sections...)
		default:
			out = append(out, chapter{k.chapter, sections})
		}
	}
	return out
}

// Figures are those of all sections, in the order of the report.
func (r *Records) Figures() (figures []*Figure) {
	for _, c := range r.chapters() {
		for _, s := range c.sections {
			figures = append(figures, s.figures...)
		}
	}
	return figures
}

// introduction of every report.
const introduction = "A map of Pareto-optimal decisions is learned offline; online, a controller moves on it instead of solving a problem. " +
	"Here is what that gave on one machine. Every table and figure is drawn from recorded runs: nothing is typed, and what was not recorded is missing. " +
	"Lower is better wherever a cost, a regret, a gap or a time stands. Times are of the machine named under each table, and the paper's of its own."

// glossary are the words of tables and figures.
var glossary = [][2]string{
	{"map", "the learned manifold of Pareto-optimal decisions, as a model file"},
	{"method", "a way to decide; `gpc methods CASE` lists them. `navigator` moves on the map, `planner` searches with it, `direct` decodes what is encoded, `oracle` knows the whole episode"},
	{"decision", "one action for one observation; an episode is a run of them from a start that no map has seen"},
	{"cost", "Σ σᵀJ: the objectives J of every decision weighed by the priority σ, summed over an episode"},
	{"priority σ", "weights of the objectives, from how urgent each is in a state, or a user's fixed preference w"},
	{"margin", "distance to a hard limit: negative where it is violated"},
	{"safe", "an episode in which no margin was violated, no state was lost, and every goal was reached"},
	{"regret", "R_T of the paper: cost above the oracle's from the same start, in % of it"},
	{"gap", "cost above a reference method's, in % of it; it may be negative"},
	{"fallback", "a decision that the monitor or the guard replaced"},
	{"s.e.m.", "standard error of the mean; a 95 % interval is about twice as wide to either side"},
	{"p50, p99", "the time that half, and 99 of 100, decisions stay below; p90 of a regret is what nine of ten episodes stay below"},
	{"± 95 %, [a, b]", "95 % intervals: of means by Student's t, of shares by Clopper and Pearson, of differences by the bootstrap"},
	{"‖Δz‖", "how far the latent moves in one decision"},
}

// Write writes dir/report.md, dir/report.html (self-contained) and
// dir/figures/*.svg, *.png and *.gif, and returns the files it wrote.
func (r *Records) Write(ctx context.Context, dir string) ([]string, error) {
	images := filepath.Join(dir, "figures")
	if err := os.MkdirAll(images, 0o755); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	files := []string{filepath.Join(dir, "report.md"), filepath.Join(dir, "report.html")}
	p := sheet{title: "gpc: recorded results, " + r.Device}
	p.begin()
	l, err := r.lead(ctx)
	if err != nil {
		return nil, err
	}
	p.lead(l)
	chapters := r.chapters()
	p.contents(chapters)
	for _, c := range chapters {
		p.chapter(c.title)
		for _, s := range c.sections {
			p.section(&s)
			for _, f := range s.figures {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				if err := f.Write(images); err != nil {
					return nil, err
				}
				files = append(files, filepath.Join(images, f.Name+".svg"), filepath.Join(images, f.Name+".png"))
				if err := p.figure(f); err != nil {
					return nil, err
				}
			}
			for _, t := range s.traces {
				a, err := r.Animation(ctx, t)
				if err != nil {
					return nil, err
				}
				if a == nil {
					continue
				}
				path := filepath.Join(images, a.Name+".gif")
				if err := durable.WriteFile(path, a.GIF, 0o644); err != nil {
					return nil, fmt.Errorf("report: %w", err)
				}
				files = append(files, path)
				p.animation(a)
			}
			p.endSection()
		}
	}
	p.end()
	for path, data := range map[string][]byte{files[0]: p.md.Bytes(), files[1]: p.html.Bytes()} {
		if err := durable.WriteFile(path, data, 0o644); err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
	}
	return files, nil
}

// sheet is the report in both its forms while it is written. The HTML needs no other file.
type sheet struct {
	title    string
	md, html bytes.Buffer
	sections int  // begun so far
	figures  bool // those of the section have begun
}

const style = `:root{color-scheme:light dark;--ink:#1b222a;--soft:#56616c;--line:#d5dbe1;--paper:#fff;--head:#f3f5f7;--link:#0b5cad}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ec;--soft:#a3adb8;--line:#3a434d;--paper:#15191e;--head:#20262d;--link:#7db8f5}}
*{box-sizing:border-box}html{scroll-padding-top:1em}
body{font:16px/1.55 system-ui,sans-serif;max-width:75rem;margin:0 auto;padding:1.2rem;color:var(--ink);background:var(--paper)}
p,dl,nav{max-width:48rem}p.note{color:var(--soft)}a{color:var(--link)}h1{line-height:1.2}
h2{margin-top:2.5em;padding-top:.5em;border-top:2px solid var(--line)}h3{margin-top:2em}
.table{overflow:auto;max-height:80vh;border:1px solid var(--line);border-radius:4px;margin:1em 0;width:max-content;max-width:max(100%,calc(50vw + 50% - 1.2rem))}
table{border-collapse:collapse;font-size:.8rem;font-variant-numeric:tabular-nums}
th,td{padding:.3em .7em;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
td.words{white-space:normal;min-width:14em;text-align:left}
th{white-space:normal;vertical-align:bottom}
.table{background:linear-gradient(90deg,var(--paper) 30%,transparent) 0 0/2.5rem 100% local no-repeat,linear-gradient(-90deg,var(--paper) 30%,transparent) 100% 0/2.5rem 100% local no-repeat,linear-gradient(-90deg,var(--line),transparent) 100% 0/1.2rem 100% no-repeat}
th{position:sticky;top:0;background:var(--head);z-index:1}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--paper)}th:first-child{background:var(--head);z-index:2}
.figures{display:flex;flex-wrap:wrap;gap:1.2em;align-items:flex-start}
figure{margin:0;flex:0 1 auto;max-width:100%;width:min-content;min-width:min(100%,22rem)}
figure svg,figure img{display:block;max-width:100%;height:auto;background:#fff;border:1px solid var(--line);border-radius:4px}
figcaption{font-size:.85rem;color:var(--soft);margin-top:.4em}
.lead{display:flex;flex-wrap:wrap;gap:1.2em;align-items:center;margin:1.2em 0}
.lead figure{flex:1 1 28rem;min-width:min(100%,22rem)}.lead figure img{max-height:62vh;margin:0 auto}
.tiles{flex:1 1 24rem;display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:.8em;margin:0;max-width:none}
.tiles div{border:1px solid var(--line);border-radius:4px;padding:.7em .9em;background:var(--head)}
.tiles dt{margin:0;font-weight:400;font-size:.85rem;color:var(--soft)}.tiles b{display:block;font-size:1.7rem;line-height:1.3;font-variant-numeric:tabular-nums}.tiles small{color:var(--soft)}
summary{cursor:pointer;font-weight:600}
dt{font-weight:600;margin-top:.6em}dd{margin:0}nav ul{padding-left:1.2em;margin:.2em 0}
@media(max-width:40rem){body{padding:.8rem;font-size:15px}td,th{padding:.3em .5em}td.words{min-width:10em}}
@media print{.table{overflow:visible;max-height:none}}`

func (p *sheet) begin() {
	fmt.Fprintf(&p.md, "# %s\n\n%s\n", p.title, introduction)
	fmt.Fprintf(&p.html, "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>%[1]s</title>\n<style>%[2]s</style></head>\n<body>\n<h1>%[1]s</h1>\n<p>%[3]s</p>\n",
		html.EscapeString(p.title), style, html.EscapeString(introduction))
}

// contents are those of the HTML; Markdown is shown with its own.
func (p *sheet) contents(chapters []chapter) {
	w, n := &p.html, 0
	fmt.Fprint(w, "<nav aria-label=\"Contents\"><details><summary>Contents</summary>\n<ul>\n")
	for i, c := range chapters {
		fmt.Fprintf(w, "<li><a href=\"#chapter-%d\">%s</a><ul>", i+1, html.EscapeString(c.title))
		for _, s := range c.sections {
			n++
			fmt.Fprintf(w, "<li><a href=\"#section-%d\">%s</a></li>", n, html.EscapeString(s.title))
		}
		fmt.Fprint(w, "</ul></li>\n")
	}
	fmt.Fprint(w, "<li><a href=\"#glossary\">Glossary</a></li>\n</ul></details></nav>\n")
}

func (p *sheet) chapter(title string) {
	fmt.Fprintf(&p.md, "\n## %s\n", title)
	fmt.Fprintf(&p.html, "<h2 id=\"chapter-%d\">%s</h2>\n", bytes.Count(p.html.Bytes(), []byte("<h2 id=\"chapter-"))+1, html.EscapeString(title))
}

func (p *sheet) section(s *section) {
	p.sections++
	p.figures = false
	fmt.Fprintf(&p.md, "\n### %s\n", s.title)
	fmt.Fprintf(&p.html, "<section>\n<h3 id=\"section-%d\">%s</h3>\n", p.sections, html.EscapeString(s.title))
	if s.note != "" {
		fmt.Fprintf(&p.md, "\n%s\n", s.note)
		fmt.Fprintf(&p.html, "<p class=\"note\">%s</p>\n", inline(s.note))
	}
	if len(s.rows) > 0 {
		fmt.Fprintln(&p.md)
		s.table(&p.md)
		s.html(&p.html)
	}
}

func (p *sheet) endSection() {
	if p.figures {
		fmt.Fprint(&p.html, "</div>\n")
	}
	fmt.Fprint(&p.html, "</section>\n")
}

// picture adds an image with its caption, as the file that Markdown shows and as the element
// that stands in the HTML.
func (p *sheet) picture(title, file, element, caption string) {
	if !p.figures {
		fmt.Fprint(&p.html, "<div class=\"figures\">\n")
		p.figures = true
	}
	fmt.Fprintf(&p.md, "\n![%s](figures/%s)\n\n*%s.* %s\n", title, file, title, caption)
	fmt.Fprintf(&p.html, "<figure>%s<figcaption><b>%s.</b> %s</figcaption></figure>\n", element, html.EscapeString(title), html.EscapeString(caption))
}

func (p *sheet) figure(f *Figure) error {
	svg, err := f.SVG()
	if err != nil {
		return err
	}
	if i := bytes.Index(svg, []byte("<svg")); i > 0 {
		svg = svg[i:]
	}
	element := strings.Replace(string(svg), "<svg", "<svg role=\"img\" aria-label=\""+html.EscapeString(f.Title)+"\"", 1)
	p.picture(f.Title, f.Name+".svg", element, f.caption)
	return nil
}

func (p *sheet) animation(a *Animation) {
	element := fmt.Sprintf("<img alt=\"%s\" src=\"data:image/gif;base64,%s\">", html.EscapeString(a.Title), base64.StdEncoding.EncodeToString(a.GIF))
	p.picture(a.Title, a.Name+".gif", element, a.caption)
}

func (p *sheet) end() {
	fmt.Fprint(&p.md, "\n## Glossary\n\n")
	fmt.Fprint(&p.html, "<h2 id=\"glossary\">Glossary</h2>\n<dl>\n")
	for _, g := range glossary {
		fmt.Fprintf(&p.md, "* **%s**: %s.\n", g[0], g[1])
		fmt.Fprintf(&p.html, "<dt>%s</dt><dd>%s.</dd>\n", html.EscapeString(g[0]), inline(g[1]))
	}
	fmt.Fprint(&p.html, "</dl>\n</body>\n</html>\n")
}

// inline is Markdown's code, escaped otherwise.
func inline(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		if i%2 == 1 {
			part = "<code>" + html.EscapeString(part) + "</code>"
		} else {
			part = html.EscapeString(part)
		}
		b.WriteString(part)
	}
	return b.String()
}

func (s *section) table(w *bytes.Buffer) {
	for i, r := range s.rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(r, " | "))
		if i == 0 {
			fmt.Fprintf(w, "|---%s|\n", strings.Repeat("|---:", len(r)-1))
		}
	}
}

// filled leaves out columns without an entry in any row.
func filled(rows [][]string) [][]string {
	if len(rows) < 2 {
		return rows
	}
	out := make([][]string, len(rows))
	for c := range rows[0] {
		if slices.ContainsFunc(rows[1:], func(row []string) bool { return row[c] != "–" }) {
			for i, row := range rows {
				out[i] = append(out[i], row[c])
			}
		}
	}
	if len(out[0]) == 0 {
		return rows
	}
	return out
}

// wordy is how long a cell is that may be broken into lines.
const wordy = 40

// html writes the table in a box of its own, in which it scrolls where it does not fit.
func (s *section) html(w *bytes.Buffer) {
	rows := filled(s.rows)
	fmt.Fprintf(w, "<div class=\"table\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table>\n<thead><tr>", html.EscapeString(s.title))
	for _, c := range rows[0] {
		fmt.Fprintf(w, "<th scope=\"col\">%s</th>", inline(c))
	}
	fmt.Fprint(w, "</tr></thead>\n<tbody>\n")
	for _, r := range rows[1:] {
		fmt.Fprint(w, "<tr>")
		for _, c := range r {
			class := ""
			if len(c) > wordy {
				class = " class=\"words\""
			}
			fmt.Fprintf(w, "<td%s>%s</td>", class, inline(c))
		}
		fmt.Fprint(w, "</tr>\n")
	}
	fmt.Fprint(w, "</tbody></table></div>\n")
}
