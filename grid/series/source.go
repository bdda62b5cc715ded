package series

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/grid/network"
)

// Source reads steps from a table of loads in one of two layouts. Powers are in MW and MVAr.
//
// Wide has one row a step: time (any text, may be left out), scale (a factor on every load of the
// network), and pd_ID and qd_ID, the load of the bus with that number. A bus with pd_ID alone
// keeps its power factor; loads that no column names are the network's, times scale.
//
// Long has a row a step and bus: time, bus, pd and, where power factors change, qd. Consecutive
// rows of one time are a step; a bus that a step does not name keeps the network's load. The rows
// of a time stand together: one that comes back after another time is refused.
type Source struct {
	n      *network.Network
	t      table
	long   bool
	time   int // column, −1 for none
	scale  int
	loads  []load
	bus    int // of the long layout
	pd, qd int
	index  map[int]int
	times  map[string]bool // of the steps of the long layout
	read   int
	ahead  []cell // the row that ended the step before
	ended  bool
}

// load names the columns of a bus's load; −1 for none.
type load struct{ bus, pd, qd int }

// Open opens the table in a file named .csv or .parquet for a network.
func Open(path string, n *network.Network) (*Source, error) {
	t, err := open(path)
	if err != nil {
		return nil, err
	}
	s := &Source{n: n, t: t, index: map[int]int{}, times: map[string]bool{}}
	for b, id := range n.BusID {
		s.index[id] = b
	}
	if err := s.layout(); err != nil {
		t.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the file.
func (s *Source) Close() error { return s.t.Close() }

// layout finds the columns. Each is one that the layout has.
func (s *Source) layout() error {
	names, place := s.t.names(), s.t.location()
	for i, name := range names {
		if slices.Index(names, name) < i {
			return fmt.Errorf("%s: column %q appears twice", place, name)
		}
	}
	s.time, s.bus, s.scale = slices.Index(names, "time"), slices.Index(names, "bus"), slices.Index(names, "scale")
	s.pd, s.qd = slices.Index(names, "pd"), slices.Index(names, "qd")
	if s.long = s.bus >= 0; s.long {
		if s.time < 0 || s.pd < 0 {
			return fmt.Errorf("%s: a table with a column bus needs the columns time and pd too; it has %s", place, strings.Join(names, ", "))
		}
		for _, name := range names {
			if !slices.Contains([]string{"time", "bus", "pd", "qd"}, name) {
				return fmt.Errorf("%s, column %q: a table with a column bus has time, bus, pd and qd alone", place, name)
			}
		}
		return nil
	}
	loadOf := map[int]int{}
	for i, name := range names {
		kind, id, ok := strings.Cut(name, "_")
		if !ok || kind != "pd" && kind != "qd" {
			if i != s.time && i != s.scale {
				return fmt.Errorf("%s, column %q: want time, scale, pd_BUS, qd_BUS, or time, bus, pd, qd", place, name)
			}
			continue
		}
		number, err := strconv.Atoi(id)
		bus, exists := s.index[number]
		if err != nil || !exists {
			return fmt.Errorf("%s, column %q: network %s has no bus %s in service", place, name, s.n.Name, id)
		}
		if id != strconv.Itoa(number) { // pd_05 is no second column of bus 5
			return fmt.Errorf("%s, column %q: want %s_%d", place, name, kind, number)
		}
		k, listed := loadOf[bus]
		if !listed {
			k = len(s.loads)
			loadOf[bus] = k
			s.loads = append(s.loads, load{bus, -1, -1})
		}
		if kind == "pd" {
			s.loads[k].pd = i
		} else {
			s.loads[k].qd = i
		}
	}
	if len(s.loads) == 0 && s.scale < 0 {
		return fmt.Errorf("%s: no load in its columns %s: want scale, pd_BUS, qd_BUS, or bus and pd", place, strings.Join(names, ", "))
	}
	return nil
}

// Next returns up to limit further steps, or io.EOF after the last.
func (s *Source) Next(limit int) (*Steps, error) {
	steps := &Steps{First: s.read}
	for steps.Len() < limit && !s.ended {
		err := s.step(steps)
		if errors.Is(err, io.EOF) {
			s.ended = true
			break
		}
		if err != nil {
			return nil, err
		}
	}
	s.read += steps.Len()
	if steps.Len() == 0 {
		return nil, io.EOF
	}
	return steps, nil
}

// step appends one step.
func (s *Source) step(steps *Steps) error {
	if s.long {
		return s.longStep(steps)
	}
	row, err := s.t.next()
	if err != nil {
		return err
	}
	scale := 1.0
	if s.scale >= 0 {
		if scale, err = s.number(row, s.scale); err != nil {
			return err
		}
		if scale < 0 {
			return fmt.Errorf("%s, column scale: %g: want a number of 0 or more", s.t.location(), scale)
		}
	}
	pd, qd := s.n.Loads(scale)
	for _, l := range s.loads {
		if err := s.put(row, l, pd, qd); err != nil {
			return err
		}
	}
	steps.add(s.label(row), pd, qd)
	return nil
}

// longStep reads the rows of one time.
func (s *Source) longStep(steps *Steps) error {
	row, err := s.ahead, error(nil)
	if s.ahead = nil; row == nil {
		if row, err = s.t.next(); err != nil {
			return err
		}
	}
	pd, qd := s.n.Loads(1)
	label, named := s.label(row), map[int]bool{}
	if s.times[label] {
		return fmt.Errorf("%s, column time: %q appears again after another time: sort the rows by time", s.t.location(), label)
	}
	s.times[label] = true
	for {
		id, err := s.number(row, s.bus)
		if err != nil {
			return err
		}
		bus, ok := s.index[int(id)]
		if !ok || id != math.Trunc(id) {
			return fmt.Errorf("%s, column bus: network %s has no bus %g in service", s.t.location(), s.n.Name, id)
		}
		if named[bus] {
			return fmt.Errorf("%s, column bus: bus %d appears twice at time %q", s.t.location(), s.n.BusID[bus], label)
		}
		named[bus] = true
		if err := s.put(row, load{bus, s.pd, s.qd}, pd, qd); err != nil {
			return err
		}
		row, err = s.t.next()
		if errors.Is(err, io.EOF) {
			s.ended = true
			break
		}
		if err != nil {
			return err
		}
		if s.label(row) != label {
			s.ahead = slices.Clone(row)
			break
		}
	}
	steps.add(label, pd, qd)
	return nil
}

// put sets the load of a bus from a row.
func (s *Source) put(row []cell, l load, pd, qd []float64) error {
	if l.pd >= 0 {
		p, err := s.number(row, l.pd)
		if err != nil {
			return err
		}
		p /= s.n.BaseMVA
		if l.qd < 0 && s.n.Pd[l.bus] != 0 {
			qd[l.bus] = s.n.Qd[l.bus] * (p / s.n.Pd[l.bus])
		}
		pd[l.bus] = p
	}
	if l.qd >= 0 {
		q, err := s.number(row, l.qd)
		if err != nil {
			return err
		}
		qd[l.bus] = q / s.n.BaseMVA
	}
	return nil
}

func (s *Source) number(row []cell, column int) (float64, error) {
	if c := row[column]; c.isNumber && !math.IsNaN(c.number) && !math.IsInf(c.number, 0) {
		return c.number, nil
	}
	return 0, fmt.Errorf("%s, column %s: %q: want a finite number", s.t.location(), s.t.names()[column], row[column].text)
}

func (s *Source) label(row []cell) string {
	if s.time < 0 {
		return ""
	}
	return row[s.time].text
}
