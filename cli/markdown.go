package cli

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// everyOption heads the options that every command takes.
const everyOption = "Options of every command"

// markdown is the help of every command of a program as one page: `gpc help --markdown`.
func (a *App) markdown(root *cobra.Command) string {
	var page strings.Builder
	fmt.Fprintf(&page, "# Command line\n\nFor everybody who types commands. `%[1]s help --markdown` writes this page from the help of the program, and\n`%[1]s help COMMAND` prints one section. Each command also takes the [options of every command](#%[2]s).\n", a.Name, heading(everyOption))
	for _, g := range root.Groups() {
		fmt.Fprintf(&page, "\n## %s\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && !c.Hidden {
				writeSection(&page, c)
			}
		}
	}
	fmt.Fprintf(&page, "\n## %s\n%s", everyOption, optionTable("", root.PersistentFlags()))
	return page.String()
}

// heading is the anchor of a heading of words.
func heading(text string) string { return strings.ReplaceAll(strings.ToLower(text), " ", "-") }

// writeSection writes the section of a command, and those of its own commands, but for cobra's scripts of completion.
func writeSection(page *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(page, "\n### `%s`\n\n%s.\n\n```text\n%s\n```\n", c.CommandPath(), escaped(c.Short), c.UseLine())
	if c.GroupID == "help" && c.Name() == "completion" {
		return
	}
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	page.WriteString(prose(c.Long))
	page.WriteString(optionTable(name, c.LocalFlags()))
	if c.Example != "" {
		page.WriteString("\n```console\n")
		for line := range strings.Lines(c.Example) {
			fmt.Fprintf(page, "$ %s\n", strings.TrimSpace(line))
		}
		page.WriteString("```\n")
	}
	fmt.Fprintf(page, "\n%s.\n", escaped(exitCodesOf(c)))
	for _, sub := range c.Commands() {
		writeSection(page, sub)
	}
}

// prose is a long text in Markdown: paragraphs with an indented line stand as they are.
func prose(long string) string {
	var text strings.Builder
	for paragraph := range strings.SplitSeq(long, "\n\n") {
		switch {
		case paragraph == "":
		case strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n "):
			fmt.Fprintf(&text, "\n```text\n%s\n```\n", paragraph)
		default:
			fmt.Fprintf(&text, "\n%s\n", escaped(strings.ReplaceAll(strings.TrimSpace(paragraph), "\n", " ")))
		}
	}
	return text.String()
}

// optionTable is a table of a command's flags with their defaults and ranges, "" for none of them.
func optionTable(command string, flags *pflag.FlagSet) string {
	var rows strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		value := strings.Trim(f.DefValue, "[]")
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", inCell(strings.TrimSpace("--"+f.Name+" "+kind)), value, rangeOf(command, f), inCell(escaped(usage)))
	})
	if rows.Len() == 0 {
		return ""
	}
	return "\n| option | default | range | meaning |\n|---|---|---|---|\n" + rows.String()
}

var (
	spoken   = regexp.MustCompile(`--[a-z][a-z0-9-]*|\{"[^}]*\}`)
	notProse = strings.NewReplacer("*", `\*`, "<", `\<`)
)

// escaped is a text whose options stand as code, and whose signs Markdown leaves alone.
func escaped(text string) string { return spoken.ReplaceAllString(notProse.Replace(text), "`$0`") }

// inCell is a text for a cell of a table.
func inCell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// exitCodesOf are those of a command.
func exitCodesOf(c *cobra.Command) string {
	if c.Flags().Lookup("requeue") != nil {
		return exitCodes + "; 75 run it again (--requeue)"
	}
	return exitCodes
}

// helpCommand prints the help of a command, or that of all of them as a page of Markdown.
func (a *App) helpCommand(root *cobra.Command) *cobra.Command {
	var markdown bool
	cmd := &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command", Example: "  " + a.Name + " help eval pair",
		RunE: func(_ *cobra.Command, args []string) error {
			topic, _, err := root.Find(args)
			if err != nil || topic == root && len(args) > 0 {
				return a.unknownCommand(root, strings.Join(args, " "))
			}
			if markdown && topic != root {
				return BadInputf("--markdown writes the help of all commands: leave %s out", topic.Name())
			}
			if markdown {
				_, err = fmt.Fprint(a.Stdout, a.markdown(root))
				return err
			}
			return topic.Help()
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "write the help of all commands as one page of Markdown")
	return cmd
}
