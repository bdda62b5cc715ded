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

// Words name lists of outages: what Named takes.
var Words = []string{"branches", "units", "all"}

// Named are the outages of a word: "branches" is every branch in service, "units" every unit, and "all" is both. Branches
// that cut off a part of the network are among them.
func Named(n *network.Network, word string) (list []Outage, known bool) {
	if !slices.Contains(Words, word) {
		return nil, false
	}
	if word != "units" {
		for k := range n.Branches() {
			list = append(list, Outage{k, -1})
		}
	}
	if word != "branches" {
		list = append(list, Units(n)...)
	}
	return list, true
}

// Survivable parts a list into the outages that leave the network in one piece, and the branches whose outage cuts off
// a part of it, which no dispatch survives.
func Survivable(n *network.Network, list []Outage) (whole, cut []Outage) {
	bridges := n.Bridges()
	for _, o := range list {
		if o.Branch >= 0 && bridges[o.Branch] {
			cut = append(cut, o)
		} else {
			whole = append(whole, o)
		}
	}
	return whole, cut
}

// ReadOutages reads lines such as "branch 7" and "unit 2", which count rows of the case's tables from 1; what follows # is
// left aside. name stands in errors. Outages that cut off a part of the network are among them.
func ReadOutages(n *network.Network, name string, r io.Reader) (list []Outage, err error) {
	seen := map[Outage]bool{}
	err = eachLine(name, r, func(line string) error {
		o, err := ParseOutage(n, line)
		if err == nil && seen[o] {
			err = fmt.Errorf("%s is listed twice", o.name(n))
		}
		seen[o] = true
		list = append(list, o)
		return err
	})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s: no outage is listed", name)
	}
	return list, err
}

// ParseOutage reads one such line.
func ParseOutage(n *network.Network, line string) (Outage, error) {
	words := strings.Fields(line)
	switch {
	case len(words) == 2 && words[0] == "branch":
		k, err := inService("branch", words[1], n.BranchRow)
		return Outage{k, -1}, err
	case len(words) == 2 && words[0] == "unit":
		g, err := inService("unit", words[1], n.GenRow)
		return Outage{-1, g}, err
	}
	return Outage{}, fmt.Errorf("%.60q: want branch ROW or unit ROW", line)
}

// NamedParticipation are the factors of a word: "range" is in proportion to PMax − PMin (nil, as in Options), "pmax" to PMax,
// and "equal" the same for all.
func NamedParticipation(n *network.Network, word string) (out []float64, known bool) {
	out = make([]float64, n.Gens())
	switch word {
	case "range":
		return nil, true
	case "pmax":
		for g, p := range n.PMax {
			out[g] = max(0, p)
		}
		return out, true
	case "equal":
		for g := range out {
			out[g] = 1
		}
		return out, true
	}
	return nil, false
}

// ReadParticipation reads lines such as "unit 2 0.4" likewise: the factor of every unit, 0 for those that are not named.
func ReadParticipation(n *network.Network, name string, r io.Reader) ([]float64, error) {
	out := make([]float64, n.Gens())
	return out, eachLine(name, r, func(line string) error {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] != "unit" {
			return fmt.Errorf("%.60q: want unit ROW FACTOR", line)
		}
		g, err := inService("unit", words[1], n.GenRow)
		if err != nil {
			return err
		}
		out[g], err = strconv.ParseFloat(words[2], 64)
		if err != nil || !(out[g] >= 0) || math.IsInf(out[g], 1) {
			return fmt.Errorf("factor %s: want a number, 0 or more", words[2])
		}
		return nil
	})
}

func eachLine(name string, r io.Reader, visit func(line string) error) error {
	lines := bufio.NewScanner(r)
	at := 1
	for ; lines.Scan(); at++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := visit(line); err != nil {
			return fmt.Errorf("%s, line %d: %w", name, at, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s, line %d: %w", name, at, err)
	}
	return nil
}

// inService is which of the branches or units in service is a row of the case's table, from 1. rows are theirs, from 0.
func inService(what, row string, rows []int) (int, error) {
	number, err := strconv.Atoi(row)
	at := slices.Index(rows, number-1)
	if err != nil || at < 0 {
		return 0, fmt.Errorf("no %s in service is row %s of its table", what, row)
	}
	return at, nil
}
