package results

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/finite"
)

// Record is a folder that keeps the results of outages, of consecutive ones in a file each. What it has is not solved again. Of
// Count processes, this one solves every Count-th part, from Index on; its results are of these. Count 0 is all.
type Record struct {
	Folder, Build string
	Index, Count  int
}

// outagesPerPart are the outages of a file of a record: what an interruption may lose.
const outagesPerPart = 1024

// maxPart is the size of a part's file at most.
const maxPart = 1 << 30

// recordedPart is a part of a list of outages.
type recordedPart struct {
	Key      string        `json:"key"` // of what the results depend on
	SolvedBy SolvedBy      `json:"solved_by"`
	Outages  []AfterOutage `json:"outages"`
	Excess   []byte        `json:"excess"` // of each limit the largest after any of these outages, then its number among them
	durable.Seal
}

// parts solves the outages part by part, or takes them from the record. What is kept of them does not grow with the list.
func (y *securityRun) parts(ctx context.Context, w *securityWatch) error {
	record, all := y.opt.Record, len(y.list)+len(y.groups)
	path, key := func(int) string { return "" }, ""
	if record == nil {
		record = &Record{}
	} else {
		if err := os.MkdirAll(record.Folder, 0o755); err != nil {
			return err
		}
		path = func(k int) string { return filepath.Join(record.Folder, fmt.Sprintf("outages-%06d.json", k)) }
		var err error
		if key, err = y.key(); err != nil {
			return err
		}
	}
	y.out.Shard = [2]int{record.Index, max(1, record.Count)}
	remaining, finished := 0, 0
	var parts []int
	for k := record.Index; k < (all+outagesPerPart-1)/outagesPerPart; k += max(1, min(record.Count, all)) {
		parts = append(parts, k)
		if _, err := os.Stat(path(k)); err != nil {
			remaining += min(outagesPerPart, all-k*outagesPerPart)
		}
	}
	report := func(count int) {
		if y.opt.Progress != nil {
			y.opt.Progress(count, remaining)
		}
	}
	for _, k := range parts {
		path := path(k)
		p := &recordedPart{}
		err := fs.ErrNotExist
		if path != "" {
			err = durable.ReadSealed(path, p, maxPart)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if p, err = y.solvePart(ctx, k*outagesPerPart, func(n int) { report(finished + n) }); err != nil {
				return err
			}
			if p.Key = key; path != "" {
				if err := durable.WriteSealed(path, p); err != nil {
					return err
				}
			}
			finished += len(p.Outages)
			report(finished)
		case err != nil:
			return durable.Refusef("%w", err)
		case p.Key != key:
			return durable.Refusef("%s has outages of another network, list, options or build: name another folder", path)
		}
		excess, number := make([]float64, w.count()), make([]int32, w.count())
		if n, err := binary.Decode(p.Excess, binary.LittleEndian, excess); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		} else if _, err := binary.Decode(p.Excess[n:], binary.LittleEndian, number); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for limit, x := range excess {
			w.keep(limit, x, k*outagesPerPart+int(number[limit]))
		}
		for i := range p.Outages {
			y.out.count(&p.Outages[i])
		}
		if y.out.Outages = append(y.out.Outages, p.Outages...); y.opt.Worst > 0 && len(y.out.Outages) > y.opt.Worst {
			y.out.rank(y.opt.Worst)
		}
		y.out.SolvedBy.add(p.SolvedBy)
	}
	return nil
}

// solvePart solves the outages of a part. progress hears of all but the last, which counts when it is kept.
func (y *securityRun) solvePart(ctx context.Context, first int, progress func(count int)) (*recordedPart, error) {
	end, listed := min(first+outagesPerPart, len(y.list)+len(y.groups)), len(y.list)
	run := &securityRun{n: y.n, s: y.s, input: y.input, base: y.base, threshold: y.threshold, loading: y.loading, opt: y.opt, out: &Security{}, workers: y.workers,
		list: y.list[min(first, listed):min(end, listed)], groups: y.groups[max(first-listed, 0):max(end-listed, 0)], first: max(first-listed, 0)}
	run.progress = func(n int) {
		if n < end-first {
			progress(n)
		}
	}
	w := newSecurityWatch(y.n, y.loading)
	if err := run.solveAll(ctx, w); err != nil {
		return nil, err
	}
	number := make([]int32, len(w.outage))
	for i, k := range w.outage {
		number[i] = int32(k)
	}
	excess, err := binary.Append(nil, binary.LittleEndian, w.extreme)
	if err == nil {
		excess, err = binary.Append(excess, binary.LittleEndian, number)
	}
	return &recordedPart{SolvedBy: run.out.SolvedBy, Outages: run.out.Outages, Excess: excess}, err
}

// key is the hash of what the outages' results depend on. The name of the network and its costs are not.
func (y *securityRun) key() (string, error) {
	h, opt, n := sha256.New(), y.flow, *y.n
	opt.Context, opt.Slack = nil, nil
	n.Name, n.Cost, n.ReactiveCost = "", nil, nil
	network, err := finite.Marshal(&n)
	fmt.Fprintf(h, "%s %v %v %v %v %v %s", y.opt.Record.Build, opt, y.opt.ShareMissing, y.opt.Participation, y.list, y.groups, network)
	for _, v := range [][]float64{y.base.Vm, y.base.Va, y.base.Pg, y.base.Qg, y.input.Pd, y.input.Qd} {
		fmt.Fprintf(h, "%x ", v)
	}
	return durable.Sum([32]byte(h.Sum(nil))), err
}

func (c *SolvedBy) add(other SolvedBy) {
	c.BaseFactors += other.BaseFactors
	c.OwnFactors += other.OwnFactors
}
