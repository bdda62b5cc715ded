package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"gonum.org/v1/gonum/stat/distuv"
)

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
// below 30.
func PlainPercent(v, half closedloop.Number, n int) string {
	text := plain(v)
	if math.Abs(float64(v)) < 0.001 {
		text = "0.000"
	}
	if n < 30 && float64(half) >= 0.0005 {
		text += " ± " + plain(half)
	}
	return text
}

// PlainMilliseconds is median and 99 % quantile of a time to two digits.
func PlainMilliseconds(q *closedloop.Quantiles) string {
	return plain(q.P50/1e3) + " / " + plain(q.P99/1e3)
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

// SafeInterval is the 95 % interval of their share.
func SafeInterval(e *closedloop.Result) string {
	return fmt.Sprintf("[%.4f, %.4f]", e.CI95.Safe[0], e.CI95.Safe[1])
}

// Milliseconds are the median and the 99th percentile of a latency, ms.
func Milliseconds(format string, q *closedloop.Quantiles) string {
	return Number(format, float64(q.P50)/1e3) + " / " + Number(format, float64(q.P99)/1e3)
}

// tiny is a difference as a power of ten with one digit.
func tiny(v float64) string {
	if !(math.Abs(v) > 0) {
		return "0"
	}
	return strings.NewReplacer("e-0", "e-", "e+0", "e+").Replace(fmt.Sprintf("%.0e", v))
}
