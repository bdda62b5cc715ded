package cli

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/serve"
)

// limit is the range of a flag that counts.
type limit struct{ least, most int }

// Limits of what appears in several commands.
const (
	mostThreads   = 1024
	mostDevice    = 255
	mostEpisodes  = 10_000_000
	mostScenarios = 10_000_000
	mostEpochs    = 1_000_000
	mostWidth     = 4096
	unbounded     = math.MinInt // any negative number means the same
)

// limits are the ranges of the flags that count, by command and flag; a flag alone is of
// every command that is not named with it. The help page has them (docs/reference/cli.md).
var limits = map[string]limit{
	"threads":              {0, mostThreads},
	"device":               {0, mostDevice},
	"parallel":             {1, mostThreads},
	"episodes":             {1, mostEpisodes},
	"robots":               {1, 1 << 16},
	"scenarios":            {0, mostScenarios},
	"candidates":           {1, batchnav.MaxCandidates},
	"estimate-window":      {0, domain.MaxWindow},
	"max-iterations":       {0, 10_000},
	"bench batch":          {1, 1 << 20},
	"bench codes":          {1, 1_000_000},
	"bench samples":        {0, 1 << 22},
	"bench epochs":         {0, mostEpochs},
	"compile rounds":       {0, 1000},
	"compile starts":       {0, 1_000_000},
	"compile test-starts":  {0, 1_000_000},
	"dataset scenarios":    {1, mostScenarios},
	"dataset weights":      {0, 1 << 16},
	"dataset chunk":        {0, 1_000_000},
	"export episodes":      {1, 1 << 16},
	"export records":       {1, 1 << 16},
	"eval steps":           {1, closedloop.MaxEpisodeSteps},
	"eval pair steps":      {1, closedloop.MaxEpisodeSteps},
	"front exact":          {0, batchnav.MostPoints},
	"front episode":        {0, mostEpisodes},
	"front look-ahead":     {0, batchnav.MaxLookAhead},
	"front points":         {1, batchnav.MostPoints},
	"front polish":         {-1, 1000},
	"front repeat":         {1, 1_000_000},
	"plant steps":          {1, closedloop.MaxEpisodeSteps},
	"refine flow-steps":    {0, batchnav.MaxFlowSteps},
	"refine look-ahead":    {0, batchnav.MaxLookAhead},
	"refine repeat":        {1, 1_000_000},
	"scene episode":        {0, mostEpisodes},
	"serve sessions":       {1, serve.MaxSessions},
	"serve line-bytes":     {64, 64 << 20},
	"serve body-bytes":     {64, 64 << 20},
	"serve connections":    {1, 1 << 20},
	"serve waiting":        {1, 1 << 20},
	"steer divisions":      {1, 1000},
	"train epochs":         {0, mostEpochs},
	"train rollout-epochs": {unbounded, mostEpochs},
	"train latent":         {0, mostWidth},
	"train hidden":         {0, mostWidth},
	"train encoder-hidden": {0, mostWidth},
	"train batch":          {0, 1 << 20},
	"train codes":          {unbounded, 1_000_000},
}

// longest are the times that a flag may ask for, by command and flag.
var longest = map[string]time.Duration{
	"bench time":               time.Hour,
	"compile budget":           30 * 24 * time.Hour,
	"eval budget":              30 * 24 * time.Hour,
	"eval guard-deadline":      time.Hour,
	"eval pair guard-deadline": time.Hour,
	"steer guard-deadline":     time.Hour,
	"refine within":            time.Hour,
	"plant deadline":           serve.MaxDeadline,
	"plant every":              time.Hour,
	"serve deadline":           serve.MaxDeadline,
	"serve max-age":            serve.MaxDeadline,
	"serve session-idle":       30 * 24 * time.Hour,
	"verify episode-limit":     24 * time.Hour,
}

// bounds is the annotation of a flag with the range of Bound.
const bounds = "bounds"

// Bound gives a flag that counts, of a program's own command, its range.
func Bound(cmd *cobra.Command, flag string, least, most int) {
	cmd.Flags().Lookup(flag).Annotations = map[string][]string{bounds: {strconv.Itoa(least), strconv.Itoa(most)}}
}

// checkLimits says which flag that was given is out of its range.
func checkLimits(cmd *cobra.Command) (err error) {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	cmd.Flags().Visit(func(f *pflag.Flag) { err = cmp.Or(err, checkLimit(name, f, cmd.Flags())) })
	return err
}

// limitOf is the range of a flag that counts: that of Bound, its own at a command, or that of every command.
func limitOf(command string, f *pflag.Flag) (limit, bool) {
	if ends := f.Annotations[bounds]; len(ends) == 2 {
		least, err := strconv.Atoi(ends[0])
		most, other := strconv.Atoi(ends[1])
		return limit{least, most}, err == nil && other == nil
	}
	l, ok := limits[command+" "+f.Name]
	if !ok {
		l, ok = limits[f.Name]
	}
	return l, ok
}

// rangeOf says the range of a flag, "" for any value.
func rangeOf(command string, f *pflag.Flag) string {
	if most, ok := longest[command+" "+f.Name]; ok {
		return fmt.Sprintf("0 to %v", most)
	}
	if l, ok := limitOf(command, f); ok && f.Value.Type() != "string" {
		return l.String()
	}
	return ""
}

func checkLimit(command string, f *pflag.Flag, flags *pflag.FlagSet) error {
	var counts []int
	switch f.Value.Type() {
	case "int":
		n, err := flags.GetInt(f.Name)
		if err != nil {
			return err
		}
		counts = append(counts, n)
	case "intSlice":
		var err error
		if counts, err = flags.GetIntSlice(f.Name); err != nil {
			return err
		}
	case countOrMeasured:
		if n, err := strconv.Atoi(f.Value.String()); err == nil {
			counts = append(counts, n)
		}
	case "duration":
		d, err := flags.GetDuration(f.Name)
		if most, ok := longest[command+" "+f.Name]; err == nil && ok && (d < 0 || d > most) {
			err = BadInputf("--%s %v: want 0 to %v", f.Name, d, most)
		}
		return err
	}
	l, ok := limitOf(command, f)
	for _, n := range counts {
		if ok && (n < l.least || n > l.most) {
			return BadInputf("--%s %d: want %v", f.Name, n, l)
		}
	}
	return nil
}

func (l limit) String() string {
	if l.least == unbounded {
		return fmt.Sprintf("at most %d", l.most)
	}
	return fmt.Sprintf("%d to %d", l.least, l.most)
}
