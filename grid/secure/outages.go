package secure

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/grid/network"
)

// Words are the names of lists of outages that Named accepts.
var Words = []string{"branches", "units", "all"}

// Named returns the outages of a word: "branches" is every branch in service, "units" every unit, "all" both. The
// list includes branches that cut off a part of the network.
func Named(n *network.Network, word string) (list []Outage, ok bool) {
	if !slices.Contains(Words, word) {
		return nil, false
	}
	if word != "units" {
		for k := range n.Branches() {
			list = append(list, Outage{Branch: k, Unit: -1})
		}
	}
	if word != "branches" {
		list = append(list, Units(n)...)
	}
	return list, true
}

// Survivable separates a list into outages that split no island, and branches whose outage does.
func Survivable(n *network.Network, list []Outage) (survivable, cut []Outage) {
	bridges := n.Bridges()
	for _, o := range list {
		if o.Branch >= 0 && bridges[o.Branch] {
			cut = append(cut, o)
		} else {
			survivable = append(survivable, o)
		}
	}
	return survivable, cut
}

// ParseOutage parses a line such as "branch 7" or "unit 2". It counts rows of the case's tables from 1.
func ParseOutage(n *network.Network, line string) (Outage, error) {
	words := strings.Fields(line)
	switch {
	case len(words) == 2 && words[0] == "branch":
		k, err := inService("branch", words[1], n.BranchRow)
		return Outage{Branch: k, Unit: -1}, err
	case len(words) == 2 && words[0] == "unit":
		g, err := inService("unit", words[1], n.GenRow)
		if err == nil && n.Terminals()[g] {
			err = fmt.Errorf("unit %s is the end of a DC line", words[1])
		}
		return Outage{Branch: -1, Unit: g}, err
	}
	return Outage{}, fmt.Errorf("%.60q: want branch ROW or unit ROW", line)
}

// NamedParticipation returns the factors of a word: "range" is in proportion to PMax − PMin (nil, as in Options),
// "pmax" to PMax, and "equal" the same for all.
func NamedParticipation(n *network.Network, word string) (out []float64, ok bool) {
	switch word {
	case "range":
		return nil, true
	case "pmax":
		for _, p := range n.PMax {
			out = append(out, max(0, p))
		}
		return out, true
	case "equal":
		return slices.Repeat([]float64{1}, n.Gens()), true
	}
	return nil, false
}

// ReadParticipation reads lines such as "unit 2 0.4". Units without a line have factor 0.
func ReadParticipation(n *network.Network, name string, r io.Reader) ([]float64, error) {
	out, listed := make([]float64, n.Gens()), map[int]bool{}
	return out, EachLine(name, r, func(line string) error {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] != "unit" {
			return fmt.Errorf("%.60q: want unit ROW FACTOR", line)
		}
		g, err := inService("unit", words[1], n.GenRow)
		if err != nil {
			return err
		}
		if listed[g] {
			return fmt.Errorf("unit %s is listed twice", words[1])
		}
		listed[g] = true
		out[g], err = strconv.ParseFloat(words[2], 64)
		if err != nil || !(out[g] >= 0) || math.IsInf(out[g], 1) {
			return fmt.Errorf("factor %s: want a number, 0 or more", words[2])
		}
		return nil
	})
}

// EachLine visits the lines of a text that is not a comment, trimmed. Errors name the source by name and line.
func EachLine(name string, r io.Reader, visit func(line string) error) error {
	lines := bufio.NewScanner(r)
	number := 1
	for ; lines.Scan(); number++ {
		line, _, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "\ufeff"), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := visit(line); err != nil {
			return fmt.Errorf("%s, line %d: %w", name, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s, line %d: %w", name, number, err)
	}
	return nil
}

// inService is the index of the branch or unit in a row of the case's table, from 1. rows are the rows of those in
// service, from 0.
func inService(kind, row string, rows []int) (int, error) {
	number, err := strconv.Atoi(row)
	index, ok := slices.BinarySearch(rows, number-1)
	if err != nil || !ok {
		return 0, fmt.Errorf("no %s in service is row %s of its table", kind, row)
	}
	return index, nil
}
