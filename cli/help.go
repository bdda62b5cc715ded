package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpc-engine/gpc/internal/names"
)

// GroupNetworks is the group in the help of commands of a program's own that solve networks.
const GroupNetworks = "networks"

// groups are those of the commands in the program's help, in its order.
var groups = []cobra.Group{
	{ID: "begin", Title: "Begin:"},
	{ID: "map", Title: "Make a map:"},
	{ID: "decide", Title: "Decide:"},
	{ID: "evaluate", Title: "Evaluate and check:"},
	{ID: GroupNetworks, Title: "Solve networks:"},
	{ID: "own", Title: "This program's own:"},
	{ID: "measure", Title: "Measure and report:"},
	{ID: "help", Title: "Help:"},
}

// topics are the group and the example of each command by its path; {program} and {case} stand
// for the program's name and its first case.
var topics = map[string]struct{ group, example string }{
	"new":           {"begin", "{program} new ../crane --source ."},
	"cases":         {"begin", "{program} cases"},
	"methods":       {"begin", "{program} methods {case} --group baseline"},
	"version":       {"help", "{program} version"},
	"doctor":        {"begin", "{program} doctor"},
	"dataset":       {"map", "{program} dataset {case} --scenarios 400 --out data"},
	"dataset merge": {"", "{program} dataset merge shard-0 shard-1 --out data"},
	"train":         {"map", "{program} train {case} --data data --out map.safetensors"},
	"compile":       {"map", "{program} compile {case} --out map.safetensors --target 0.5% --budget 15m"},
	"system":        {"begin", "{program} system crane.json"},
	"check":         {"begin", "{program} check crane.json"},
	"export":        {"map", "{program} export {case} --map-only --c out/map\n{program} export map.safetensors --c out/c --half"},
	"front":         {"decide", "{program} front {case} --points 1000 --csv out/front.csv"},
	"refine":        {"decide", "{program} scene {case} --out scene.json\n{program} refine {case} --scene scene.json --candidates 4096"},
	"serve":         {"decide", "{program} serve {case} --listen 127.0.0.1:8080 --ui"},
	"plant":         {"decide", "{program} plant {case} --connect http://127.0.0.1:8080 --episodes 20"},
	"eval":          {"evaluate", "{program} eval {case} --method direct --episodes 100 --trace run.jsonl"},
	"eval pair":     {"", "{program} eval pair {case} --methods navigator,direct,nmpc --episodes 50"},
	"eval join":     {"", "{program} eval join {case} shard-0.jsonl shard-1.jsonl"},
	"eval compare":  {"", "{program} eval compare gpc.jsonl direct.jsonl"},
	"scene":         {"evaluate", "{program} scene {case} --episode 3 --out scene.json\n{program} eval {case} --scene scene.json"},
	"steer":         {"evaluate", "{program} steer {case} --divisions 4 --episodes 5"},
	"verify":        {"evaluate", "{program} verify run.jsonl --deep"},
	"view":          {"evaluate", "{program} view run.jsonl"},
	"mcap":          {"evaluate", "{program} mcap run.jsonl run.mcap"},
	"bench":         {"measure", "{program} bench step localize --batch 1,4096"},
}

// exitCodes end the help of every command.
const exitCodes = "Exit codes: 0 done; 1 the run failed, or a check does not hold; 2 wrong input"

// explain gives every command of a program its place and its example in the help, and errors of
// usage the way to it.
func (a *App) explain(root *cobra.Command) {
	first := "CASE"
	if names := a.Names(); len(names) > 0 {
		first = names[0]
	}
	fill := strings.NewReplacer("{program}", a.Name, "{case}", first, "\n", "\n  ")
	var visit func(parent *cobra.Command, prefix string)
	visit = func(parent *cobra.Command, prefix string) {
		for _, c := range parent.Commands() {
			c.Flags().VisitAll(func(f *pflag.Flag) {
				if f.DefValue == "[]" && f.Value.Type() == "float64Slice" { // none, which pflag knows of other lists
					f.DefValue = ""
				}
			})
			topic, ours := topics[prefix+c.Name()]
			if c.Example == "" && ours {
				c.Example = "  " + fill.Replace(topic.example)
			}
			if c.GroupID == "" && parent == root {
				if c.GroupID = topic.group; !ours {
					c.GroupID = "own"
				}
			}
			visit(c, prefix+c.Name()+" ")
		}
	}
	visit(root, "")
	for _, g := range groups {
		if g.ID == "help" || slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.GroupID == g.ID }) {
			root.AddGroup(&g)
		}
	}
	root.SetHelpCommand(a.helpCommand(root))
	root.SetHelpCommandGroupID("help")
	root.SetCompletionCommandGroupID("help")
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		long := c.Long
		c.Long = reflowed(cmp.Or(long, c.Short), helpWidth(c.OutOrStdout()))
		help(c, args)
		c.Long = long
	})
	usage := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error {
		var whole strings.Builder
		hideOthers(c, true)
		defer hideOthers(c, false)
		out := c.OutOrStderr()
		c.SetOut(&whole)
		err := usage(c)
		c.SetOut(out)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(out, wrapUsage(c, whole.String(), helpWidth(out))); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "\n%s\n", wrapped(exitCodesOf(c), 0, helpWidth(out)))
		return err
	})
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		command := "" // the program's name is before it
		if cmd.HasParent() {
			command = strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ") + ": "
		}
		return BadInputf("%s%s (`%s --help` lists its flags)", command, flagError(cmd, err), cmd.CommandPath())
	})
}

// hideOthers hides, or shows again, the flags of every command that mean nothing to those that solve networks.
func hideOthers(c *cobra.Command, hidden bool) {
	top := c
	for top.HasParent() && top.Parent() != c.Root() {
		top = top.Parent()
	}
	if top.GroupID != GroupNetworks {
		return
	}
	for _, name := range []string{"backend", "device", "seed", "tf32"} {
		c.Root().PersistentFlags().Lookup(name).Hidden = hidden
	}
}

// Help is wrapped to the width of the terminal, which COLUMNS may state, within these bounds.
const leastHelp, mostHelp = 60, 120

// helpWidth is the columns that help on w may take.
func helpWidth(w io.Writer) int {
	wide := columns(w)
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		wide = n
	}
	return min(max(wide, leastHelp), mostHelp)
}

// wrapUsage is the usage of a command whose lists of commands and flags keep to a width.
func wrapUsage(c *cobra.Command, usage string, width int) string {
	for _, sub := range c.Commands() {
		line := fmt.Sprintf("  %-*s ", sub.NamePadding(), sub.Name())
		usage = strings.Replace(usage, line+sub.Short, line+wrapped(sub.Short, len(line), width), 1)
	}
	for _, f := range []*pflag.FlagSet{c.LocalFlags(), c.InheritedFlags()} {
		if long := f.FlagUsages(); long != "" {
			usage = strings.Replace(usage, strings.TrimRight(long, "\n"), strings.TrimRight(f.FlagUsagesWrapped(width), "\n"), 1)
		}
	}
	return usage
}

// reflowed is a text whose paragraphs fill a width; those with an indented line, such as lists, stay as they are.
func reflowed(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.HasPrefix(p, " ") && !strings.Contains(p, "\n ") {
			paragraphs[i] = wrapped(p, 0, width)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// flagError says what is wrong with a flag: with one that is none, which may have been meant; with a
// value, what is wanted.
func flagError(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		var flags []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		word := cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName()) // -episodes is read as letters
		if nearest := names.Nearest(word, flags); nearest != "" {
			return fmt.Sprintf("%v; did you mean --%s?", err, nearest)
		}
	case errors.As(err, &invalid):
		f, reason := invalid.GetFlag(), "want "+values[invalid.GetFlag().Value.Type()]
		switch {
		case errors.Is(err, strconv.ErrRange):
			reason = "out of range"
		case reason == "want ":
			reason = invalid.Unwrap().Error()
		}
		return fmt.Sprintf("--%s %q: %s", f.Name, invalid.GetValue(), reason)
	}
	return err.Error()
}

// values are what flags take by their types, but for those whose own errors say it.
var values = map[string]string{
	"int": "a whole number", "uint64": "a whole number ≥ 0", "float64": "a number", "bool": "true or false",
	"duration": "a time such as 5ms, 10s or 1h", "intSlice": "whole numbers such as 1,64", "float64Slice": "numbers such as 0.5,0.5", "stringToString": "NAME=VALUE",
}

// unknownCommand is the error of a first word that names no command.
func (a *App) unknownCommand(root *cobra.Command, word string) error {
	var commands []string
	for _, c := range root.Commands() {
		commands = append(commands, c.Name())
	}
	return BadInputf("unknown command %q%s (`%s --help` lists them)", word, names.Meant(word, commands), a.Name)
}
