package report

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/lab/draw"
)

// Section is one table with its heading, what it means and where it comes from, and the figures and animations beside
// it.
type Section struct {
	title, Note string
	Provenance  string     // seed, commit, machine and its load
	Absent      []string   // rows that have no record
	keys        int        // columns that name a row; 0: one
	parts       []string   // headings at which a part of the table begins that a page shows as a table of its own
	Rows        [][]string // the first is the header; nil: no table
	figures     []*draw.Figure
	traces      []*Trace // shown in motion
}

// chapter is what one sort of records or several give.
type chapter struct {
	title    string
	sections []Section
}

// chapters are those of the report that have sections, all cases at a glance before them.
func (r *Records) chapters() (out []chapter) {
	if s := Glance([]*Records{r}); len(s.Rows) > 1 {
		out = append(out, chapter{"In short", []Section{s}})
	}
	for _, k := range kinds {
		if k.sections == nil {
			continue
		}
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
	{"p50, p99 (first)", "the time that half, and 99 of 100, of the decisions behind an episode's first stay below, and in brackets the median of these first ones, which have no plan to go on from; \"of all\" where a record does not tell them apart. p90 of a regret is what nine of ten episodes stay below"},
	{"± 95 %, [a, b]", "95 % intervals: of means by Student's t, of shares by Clopper and Pearson, of differences by the bootstrap"},
	{"‖Δz‖", "how far the latent moves in one decision"},
}

// Write writes dir/report.md, dir/report.html (self-contained) and
// dir/figures/*.svg and *.png, and returns the files it wrote.
func (r *Records) Write(ctx context.Context, dir string) ([]string, error) {
	images := filepath.Join(dir, "figures")
	if err := os.MkdirAll(images, 0o755); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	files := []string{filepath.Join(dir, "report.md"), filepath.Join(dir, "report.html")}
	l, err := r.lead()
	if err != nil {
		return nil, err
	}
	chapters := r.chapters()
	p := sheet{title: "gpc: recorded results, " + r.Device}
	p.begin(l)
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
				svg, err := f.SVG()
				if err != nil {
					return nil, err
				}
				p.picture(f.Name, f.Title, f.Caption, svg)
			}
			for _, t := range s.traces {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				a, err := r.animation(t)
				if err != nil {
					return nil, err
				}
				if a == nil {
					continue
				}
				path := filepath.Join(images, a.name+".svg")
				if err := durable.WriteFile(path, a.svg, 0o644); err != nil {
					return nil, fmt.Errorf("report: %w", err)
				}
				files = append(files, path)
				p.picture(a.name, a.title+", in motion", a.caption, a.svg)
			}
			p.endSection(&s)
		}
		p.endChapter()
	}
	p.end()
	for path, data := range map[string][]byte{files[0]: p.md.Bytes(), files[1]: p.html.Bytes()} {
		if err := durable.WriteFile(path, data, 0o644); err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
	}
	return files, nil
}

// sheet is the report in both its forms while it is written. The HTML needs no other file and no script: details fold,
// and links into what is folded open it; popovers enlarge.
type sheet struct {
	title                        string
	md, html                     bytes.Buffer
	chapters, sections, pictures int  // so far
	figures                      bool // those of the section have begun
}

//go:embed page.css
var layout string

func (p *sheet) begin(l *lead) {
	fmt.Fprintf(&p.md, "# %s\n\n%s\n", p.title, introduction)
	fmt.Fprintf(&p.html, "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>%s</title>\n<style>%s</style></head>\n<body>\n<main>\n",
		html.EscapeString(p.title), draw.PageStyle(layout))
	p.lead(l)
	fmt.Fprintf(&p.html, "<details><summary>What this report is</summary><p>%s %s</p></details>\n", html.EscapeString(p.title+"."), html.EscapeString(introduction))
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
	p.chapters++
	fmt.Fprintf(&p.md, "\n## %s\n", title)
	fmt.Fprintf(&p.html, "<details class=\"chapter\"><summary><h2>%s</h2></summary>\n<div id=\"chapter-%d\">\n", html.EscapeString(title), p.chapters)
}

func (p *sheet) endChapter() { fmt.Fprint(&p.html, "</div></details>\n") }

func (p *sheet) section(s *Section) {
	p.sections++
	p.figures = false
	fmt.Fprintf(&p.md, "\n### %s\n", s.title)
	fmt.Fprintf(&p.html, "<details><summary><h3>%s</h3></summary>\n<section id=\"section-%d\" aria-label=\"%[1]s\">\n", html.EscapeString(s.title), p.sections)
	if s.Note != "" {
		fmt.Fprintf(&p.md, "\n%s\n", s.Note)
		fmt.Fprintf(&p.html, "<p>%s</p>\n", inline(s.Note))
	}
	if len(s.Rows) > 0 {
		fmt.Fprintln(&p.md)
		s.Table(&p.md)
		s.html(&p.html)
	}
	s.origins(&p.md)
}

func (p *sheet) endSection(s *Section) {
	if p.figures {
		fmt.Fprint(&p.html, "</div>\n")
	}
	var origins bytes.Buffer
	if s.origins(&origins); origins.Len() > 0 {
		fmt.Fprintf(&p.html, "<p class=\"provenance\">%s</p>\n", inline(strings.TrimSpace(origins.String())))
	}
	fmt.Fprint(&p.html, "</section></details>\n")
}

// picture adds a drawing with its caption: as the file that Markdown shows, and in the HTML itself.
func (p *sheet) picture(name, title, caption string, svg []byte) {
	if !p.figures {
		fmt.Fprint(&p.html, "<div class=\"figures\">\n")
		p.figures = true
	}
	fmt.Fprintf(&p.md, "\n![%s](figures/%s.svg)\n\n*%[1]s.* %[3]s\n", title, name, caption)
	p.enlargeable(title, caption, svg)
}

var viewBox = regexp.MustCompile(`viewBox="[^"]*"`)

// styles are those of a drawing as a file of its own; the page has them for all.
var styles = regexp.MustCompile(`<style>[^<]*</style>\n?`)

// enlargeable writes a drawing that a click, or Enter, shows as large as the window.
func (p *sheet) enlargeable(title, caption string, svg []byte) {
	p.pictures++
	name, box := html.EscapeString(title), viewBox.Find(svg)
	drawing := strings.Replace(styles.ReplaceAllString(string(svg), ""), "<svg", fmt.Sprintf("<svg id=\"picture-%d\" role=\"img\" aria-label=\"%s\"", p.pictures, name), 1)
	fmt.Fprintf(&p.html, "<figure><button type=\"button\" popovertarget=\"large-%[1]d\" title=\"Enlarge\">%[3]s</button><figcaption><b>%[2]s.</b> %[4]s</figcaption>\n"+
		"<div popover id=\"large-%[1]d\" role=\"dialog\" aria-label=\"%[2]s\"><button type=\"button\" popovertarget=\"large-%[1]d\" autofocus>Close</button><svg %[5]s role=\"img\" aria-label=\"%[2]s, enlarged\"><use href=\"#picture-%[1]d\" width=\"100%%\" height=\"100%%\"/></svg></div></figure>\n",
		p.pictures, name, drawing, html.EscapeString(caption), box)
}

func (p *sheet) end() {
	fmt.Fprint(&p.md, "\n## Glossary\n\n")
	fmt.Fprint(&p.html, "<details class=\"chapter\"><summary><h2>Glossary</h2></summary>\n<dl id=\"glossary\">\n")
	for _, g := range glossary {
		fmt.Fprintf(&p.md, "* **%s**: %s.\n", g[0], g[1])
		fmt.Fprintf(&p.html, "<dt>%s</dt><dd>%s.</dd>\n", html.EscapeString(g[0]), inline(g[1]))
	}
	fmt.Fprint(&p.html, "</dl></details>\n</main>\n</body>\n</html>\n")
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

// origins writes which rows have no record, and where the others come from.
func (s *Section) origins(w *bytes.Buffer) {
	if len(s.Absent) > 0 {
		fmt.Fprintf(w, "\nWithout a record: %s.\n", strings.Join(s.Absent, "; "))
	}
	if s.Provenance != "" {
		fmt.Fprintf(w, "\n%s\n", s.Provenance)
	}
}

// Table writes the rows as a table, the first of them as its head.
func (s *Section) Table(w *bytes.Buffer) {
	for i, r := range s.Rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(r, " | "))
		if i == 0 {
			fmt.Fprintf(w, "|---%s|\n", strings.Repeat("|---:", len(r)-1))
		}
	}
}

// Filled leaves out columns without an entry in any row.
func Filled(rows [][]string) [][]string {
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

// html writes the table, or each part of it behind the columns that name the rows, in a box of its own, in which it
// scrolls on a screen that is too narrow for it.
func (s *Section) html(w *bytes.Buffer) {
	keys := max(1, s.keys)
	from := []int{keys}
	for _, heading := range s.parts {
		from = append(from, slices.Index(s.Rows[0], heading))
	}
	for i, first := range append(from, len(s.Rows[0]))[1:] {
		part := make([][]string, len(s.Rows))
		for k, row := range s.Rows {
			part[k] = slices.Concat(row[:min(keys, len(row))], row[min(from[i], len(row)):first])
		}
		fmt.Fprintf(w, "<div class=\"table\" tabindex=\"0\" role=\"group\" aria-label=\"%s\"><table>\n", html.EscapeString(fmt.Sprintf("Table: %s, %s", s.title, part[0][min(keys, len(part[0])-1)])))
		htmlRows(w, Filled(part))
		fmt.Fprint(w, "</table></div>\n")
	}
}

// htmlRows writes rows of which the first is the header.
func htmlRows(w *bytes.Buffer, rows [][]string) {
	fmt.Fprint(w, "<thead><tr>")
	for _, c := range rows[0] {
		fmt.Fprintf(w, "<th scope=\"col\">%s</th>", inline(c))
	}
	fmt.Fprint(w, "</tr></thead>\n<tbody>\n")
	for _, r := range rows[1:] {
		fmt.Fprint(w, "<tr>")
		for i, c := range r {
			if i == 0 {
				fmt.Fprintf(w, "<th scope=\"row\">%s</th>", inline(c))
				continue
			}
			fmt.Fprintf(w, "<td>%s</td>", inline(c))
		}
		fmt.Fprint(w, "</tr>\n")
	}
	fmt.Fprint(w, "</tbody>\n")
}
