package report

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gpc-engine/gpc/closedloop"
)

// Columns declare a table: for each column its heading, with its unit, and what a row has there. A cell is text with
// fields of the row in braces, as "{Optimal} of {Scenarios}", "{CPUMS %.3g /1e3}": a path of fields, indices and keys, then
// where the field is a number its format, and what it is divided by where the unit is another. A cell is a dash where one of its
// fields is none, NaN or nil; a field with ? behind its path is a dash by itself.
type Columns [][2]string

// Headings are the first row of the table.
func (c Columns) Headings() (row []string) {
	for _, column := range c {
		row = append(row, column[0])
	}
	return row
}

// Row has the cells of a row, a struct, a pointer to one or a map. A field that there is not is a bug of the table: a panic.
func (c Columns) Row(of any) (row []string) {
	for _, column := range c {
		row = append(row, Cell(column[1], func(path string) any { return field(reflect.ValueOf(of), path) }))
	}
	return row
}

// Table is the headings and a row for each of some.
func Table[T any](c Columns, rows []T) [][]string {
	table := [][]string{c.Headings()}
	for i := range rows {
		table = append(table, c.Row(&rows[i]))
	}
	return table
}

var inBraces = regexp.MustCompile(`\{([^}]+?)(\?)?(?: (%[^ }]+|times|tiny))?(?: /([0-9.e]+))?\}`)

// formats are the words for how a number is written.
var formats = map[string]func(float64) string{"times": Ratio, "tiny": tiny}

// Cell fills a cell in; value gives the field of a path, nil where there is none.
func Cell(cell string, value func(path string) any) string {
	missing := false
	text := inBraces.ReplaceAllStringFunc(cell, func(found string) string {
		m := inBraces.FindStringSubmatch(found)
		text, is := cellText(reflect.ValueOf(value(m[1])), m[3], m[4])
		if !is && m[2] == "" {
			missing = true
		}
		return text
	})
	if missing {
		return "–"
	}
	return text
}

// cellText is a field in its format; a dash, and false, for none.
func cellText(v reflect.Value, format, divisor string) (text string, is bool) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch {
	case !v.IsValid() || v.Kind() == reflect.Pointer:
		return "–", false
	case !v.CanFloat():
		return fmt.Sprint(v.Interface()), true
	}
	x := v.Float()
	if divisor != "" {
		by, err := strconv.ParseFloat(divisor, 64)
		if err != nil {
			panic(err)
		}
		x /= by
	}
	if write := formats[format]; write != nil {
		return write(x), true
	}
	return Number(cmp.Or(format, "%g"), x), !math.IsNaN(x)
}

// field is what a path leads to; nil where something on it is nil or a map has no such key.
func field(v reflect.Value, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		for v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		switch v.Kind() {
		case reflect.Invalid:
			return nil
		case reflect.Slice, reflect.Array:
			i, err := strconv.Atoi(name)
			if err != nil || i >= v.Len() {
				panic(fmt.Sprintf("report: a row has no %q of %q", name, path))
			}
			v = v.Index(i)
		case reflect.Map:
			v = v.MapIndex(reflect.ValueOf(name))
		default:
			if v = v.FieldByName(name); !v.IsValid() {
				panic(fmt.Sprintf("report: a row has no field %q of %q", name, path))
			}
		}
	}
	if !v.IsValid() {
		return nil
	}
	return v.Interface()
}

// Number is a value in a cell: a dash for none, and no minus before a zero.
func Number(format string, v float64) string { return closedloop.Number(v).Text(format) }

// Estimate is a value with its standard error.
func Estimate(format string, v, sem closedloop.Number) string {
	if math.IsNaN(float64(v)) {
		return "–"
	}
	return v.Text(format) + " ± " + sem.Text(format)
}

// Interval is an interval with a dash for an open end.
func Interval(format string, i closedloop.OpenInterval) string {
	return "[" + i[0].Text(format) + ", " + i[1].Text(format) + "]"
}

// Within is a mean with half the width of its 95 % interval, by Student's t of its standard
// error over n.
func Within(format string, v, sem closedloop.Number, n int) string {
	return Estimate(format, v, HalfWidth(sem, n))
}

// HalfWidth is half the width of a mean's 95 % interval, by Student's t of its standard error over n.
func HalfWidth(sem closedloop.Number, n int) closedloop.Number {
	if n < 2 {
		return closedloop.Number(math.NaN())
	}
	return closedloop.Number(distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975) * float64(sem))
}

// Spread is the median and the 90 % quantile of a distribution; dashes without values.
func Spread(format string, r *closedloop.RegretStatistics) []string {
	if r.N == 0 {
		return []string{"–", "–"}
	}
	return []string{r.Median.Text(format), r.P90.Text(format)}
}

// plain is a value to two digits without an exponent.
func plain(v closedloop.Number) string {
	if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return "–"
	}
	two, _ := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'e', 1, 64), 64)
	return strconv.FormatFloat(two, 'f', -1, 64)
}

// PlainPercent is a cost in % to two digits, zero below 0.001, with half the width of its 95 % interval where n is
// below 30, or where the interval leaves its sign or its first digit open.
func PlainPercent(v, half closedloop.Number, n int) string {
	text := plain(v)
	if math.Abs(float64(v)) < 0.001 {
		text = "0.000"
	}
	if float64(half) >= 0.0005 && (n < 30 || leading(v-half) != leading(v+half)) {
		text += " ± " + plain(half)
	}
	return text
}

// leading is a value's sign, first digit and power of ten.
func leading(v closedloop.Number) string { return strconv.FormatFloat(float64(v), 'e', 0, 64) }

// PlainTimes are Times to two digits.
func PlainTimes(l *closedloop.Latency) string {
	return times(l, func(v closedloop.Number) string { return OrDash(plain(v)) })
}

// OrDash is a text in a cell: a dash for an empty one.
func OrDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// SafeOf is how many of the episodes were safe.
func SafeOf(e *closedloop.Result) string {
	return fmt.Sprintf("%.0f/%d", float64(e.Safe)*float64(e.Episodes), e.Episodes)
}

// TimesHeading is that of a column of Times.
const TimesHeading = "decision p50 / p99 (first), ms"

// Times are the median and the 99th percentile of decisions behind the first of an episode, and the median of these, ms;
// and the mean of the former where the median hides it. A record that did not tell them apart has those of all.
func Times(format string, l *closedloop.Latency) string {
	return times(l, func(v closedloop.Number) string { return Number(format, float64(v)) })
}

func times(l *closedloop.Latency, text func(ms closedloop.Number) string) string {
	pair := func(q *closedloop.Quantiles) string { return text(q.P50/1e3) + " / " + text(q.P99/1e3) }
	mean := ""
	if l.Running != nil && l.Running.Mean > hidden*l.Running.P50 {
		mean = ", mean " + text(l.Running.Mean/1e3)
	}
	switch {
	case l.Running == nil && math.IsNaN(float64(l.P50)):
		return "–"
	case l.Running != nil && l.Cold != nil:
		return pair(l.Running) + " (" + text(l.Cold.P50/1e3) + ")" + mean
	case l.Running != nil:
		return pair(l.Running) + mean
	}
	return pair(&l.Quantiles) + " of all"
}

// hidden is how many times the median a mean is that has to stand beside it.
const hidden = 2

// tiny is a difference as a power of ten with one digit.
func tiny(v float64) string {
	if !(math.Abs(v) > 0) {
		return "0"
	}
	return strings.NewReplacer("e-0", "e-", "e+0", "e+").Replace(fmt.Sprintf("%.0e", v))
}

// Origin says where a section is from: the command as it was called at the commit, the machine, and the load under which times were
// taken. "" and nil are left out.
func Origin(command, commit, device string, on ...*closedloop.Load) string {
	text := fmt.Sprintf("Commit %s, %s.", commit, device)
	if command != "" {
		text = fmt.Sprintf("`%s` at commit %s, %s.", command, commit, device)
	}
	if len(on) > 0 {
		text += " " + Loads(on)
	}
	return text
}

// originOf is that of evaluations, of which the first stands for the seed, the commit and the machine.
func originOf(evals []closedloop.Result) string {
	first := &evals[0]
	return fmt.Sprintf("Seed %d. %s %s", first.Seed, Origin("", first.Commit, first.Device), loadsOf(evals))
}

// Loads says under which load of the machine times were taken, the largest of all.
func Loads(all []*closedloop.Load) string {
	var most closedloop.Load
	unknown, above, partial := 0, 0, 0
	for _, l := range all {
		if l == nil {
			unknown++
			continue
		}
		most.Start, most.Others, most.Stolen = max(most.Start, l.Start, l.End), max(most.Others, l.Others), max(most.Stolen, l.Stolen)
		if l.Above {
			above++
		}
		if l.Partial {
			partial++
		}
	}
	if unknown == len(all) {
		return "The machine's load was not recorded."
	}
	text := fmt.Sprintf("The machine's load was at most %.2f, other processes had at most %.2f CPUs in the mean of a run, other guests %.2f.", most.Start, most.Others, most.Stolen)
	if above > 0 {
		text += fmt.Sprintf(" %d runs were recorded above the limit.", above)
	}
	if partial > 0 {
		text += fmt.Sprintf(" Of %d runs it is that of their last part, after an interruption.", partial)
	}
	if unknown > 0 {
		text += fmt.Sprintf(" Of %d runs it was not recorded.", unknown)
	}
	return text
}

// quietLoads is Loads of the runs whose times are shown, and how many others there are.
func quietLoads(all []*closedloop.Load) string {
	shown := slices.DeleteFunc(slices.Clone(all), Disturbed)
	var parts []string
	if len(shown) > 0 {
		parts = append(parts, Loads(shown))
	}
	if n := len(all) - len(shown); n > 0 {
		parts = append(parts, fmt.Sprintf("Of %d of %d runs times are left out: other processes had more than an eighth of the machine.", n, len(all)))
	}
	return strings.Join(parts, " ")
}

// loadsOf are the loads of evaluations.
func loadsOf(evals []closedloop.Result) string {
	var all []*closedloop.Load
	for i := range evals {
		all = append(all, evals[i].Load)
	}
	return quietLoads(all)
}

// RecordedBy says where pairings come from: seed, commit, device, load.
func RecordedBy(pairings []closedloop.Pairing) string {
	var seeds, commits, on []string
	var all []*closedloop.Load
	for _, p := range pairings {
		seeds, commits, on = append(seeds, fmt.Sprint(p.Seed)), append(commits, p.Commit), append(on, p.Device)
		all = append(all, p.Load)
	}
	of := fmt.Sprintf("Seed %s, commit %s", Distinct(seeds), Distinct(commits))
	if untimed(pairings) && !slices.ContainsFunc(all, Disturbed) {
		return of + ". Recorded without times."
	}
	return fmt.Sprintf("%s, %s. %s", of, Distinct(on), quietLoads(all))
}

// Distinct are the different ones of some words, in order.
func Distinct(words []string) string {
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ", ")
}

// Run is a case as recorded on one device.
type Run struct {
	*Records
	Name string
}

// RunsOf are the cases that have some of what is listed by names, each on its first device.
func RunsOf(all []*Records, names func(r *Records) []string) (out []Run) {
	for _, r := range all {
		for _, name := range names(r) {
			if !slices.ContainsFunc(out, func(other Run) bool { return other.Name == name }) {
				out = append(out, Run{r, name})
			}
		}
	}
	return out
}

// Tables writes tables one below another, without those that have no rows.
func Tables(sections ...Section) string {
	var b bytes.Buffer
	for _, s := range sections {
		if len(s.Rows) < 2 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if s.Note != "" {
			fmt.Fprintf(&b, "%s\n\n", s.Note)
		}
		s.Table(&b)
		s.origins(&b)
	}
	return b.String()
}
