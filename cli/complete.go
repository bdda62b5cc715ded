package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
)

// complete has the shell complete cases, networks, and the flags that name a method, a regime, a backend or a log.
func (a *App) complete(root *cobra.Command) {
	directive := cobra.ShellCompDirectiveNoFileComp
	if err := root.RegisterFlagCompletionFunc("backend", cobra.FixedCompletions([]string{"auto", "cuda", "cpu", "ref"}, directive)); err != nil {
		panic("cli: " + err.Error()) // a flag of root's own
	}
	var visit func(parent *cobra.Command)
	visit = func(parent *cobra.Command) {
		for _, c := range parent.Commands() {
			visit(c)
			if c.Flags().Lookup("log") != nil {
				if err := c.RegisterFlagCompletionFunc("log", cobra.FixedCompletions([]string{"text", "json", "off"}, directive)); err != nil {
					panic("cli: " + err.Error())
				}
			}
			switch _, arguments, _ := strings.Cut(c.Use, " "); {
			case strings.HasPrefix(arguments, "FILE.m"):
				c.ValidArgsFunction = cobra.FixedCompletions(a.Networks, cobra.ShellCompDirectiveDefault)
				continue
			case !strings.HasPrefix(arguments, "CASE"):
				continue
			}
			c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
				if len(args) > 0 {
					return nil, cobra.ShellCompDirectiveDefault
				}
				var names []cobra.Completion
				for _, cs := range a.All() {
					names = append(names, cobra.CompletionWithDesc(cs.Name(), cs.Spec().Description))
				}
				return names, cobra.ShellCompDirectiveDefault // a system's file is a case, too
			}
			for flag, list := range map[string]func(c *gpc.Case) []cobra.Completion{"method": methodNames, "methods": methodNames, "regime": regimeNames} {
				if c.Flags().Lookup(flag) == nil {
					continue
				}
				if err := c.RegisterFlagCompletionFunc(flag, a.namesOfCase(list)); err != nil {
					panic("cli: " + err.Error()) // it is there, and registered once
				}
			}
		}
	}
	visit(root)
}

// namesOfCase completes a name, or the last of a list of names, of the case that the command line has.
func (a *App) namesOfCase(list func(c *gpc.Case) []cobra.Completion) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := a.Named(args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		prefix := typed[:strings.LastIndexByte(typed, ',')+1]
		var names []cobra.Completion
		for _, name := range list(c) {
			names = append(names, prefix+name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func methodNames(c *gpc.Case) (names []cobra.Completion) {
	for _, m := range c.Methods() {
		names = append(names, cobra.CompletionWithDesc(m.Name, m.About))
	}
	return names
}

// regimeNames are those that a case names when it refuses one.
func regimeNames(c *gpc.Case) []cobra.Completion {
	plant := c.Definition().Plant
	if plant == nil {
		return nil
	}
	_, err := plant.Episode(1, 0, domain.EpisodeOptions{Regime: "?", Preference: domain.Preference{Adaptive: true}})
	var refused domain.RegimeError
	if !errors.As(err, &refused) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(refused.Has), func(name string) bool { return name == "" })
}
