package offline

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/model"
)

// Round is one of the datasets that are loaded together: solved, at the states that a
// policy visits, or distilled from one, of any seed. Its fields are those of its
// Provenance; SamplesSHA256 is of the samples loaded: of some shards, if not all are there.
type Round = model.Round

// Load reads all samples of datasets of one layout into columns. Those of one provenance
// are shards of one round, which need not be all; the others are rounds of their own, in
// the order in which they are given. Trajectories of different rounds get different
// numbers, and so do scenarios, but for those that are the same: of rounds that draw as
// many with the same seed. The hash identifies the samples; that of one round is that of
// its merged shards.
func Load(datasets ...*Dataset) (*Columns, []Round, string, error) {
	if len(datasets) == 0 {
		return nil, nil, "", errors.New("offline: no dataset is given, want at least one folder")
	}
	var groups [][]*Dataset
	rows := 0
	for _, d := range datasets {
		first := &datasets[0].Header
		diff := d.Header.Layout.differs(first.Layout)
		if own, want := d.Header.Provenance.Case, first.Provenance.Case; own != want {
			diff = fmt.Sprintf("field case is %s, want %s", own, want)
		}
		if own, want := d.Header.Provenance.ProblemSHA256, first.Provenance.ProblemSHA256; diff == "" && own != want {
			diff = fmt.Sprintf("they are of two problems of one name: field problem_sha256 is %s, want %s", own, want)
		}
		if diff != "" {
			return nil, nil, "", fmt.Errorf("offline: %s and %s cannot be used together: %s", d.dir, datasets[0].dir, diff)
		}
		if rows += d.rows; rows > maxRows {
			return nil, nil, "", fmt.Errorf("offline: the datasets hold more than %d samples", maxRows)
		}
		at := slices.IndexFunc(groups, func(g []*Dataset) bool { return d.Header.differs(&g[0].Header) == "" })
		if at < 0 {
			at = len(groups)
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], d)
	}
	c := newColumns(datasets[0].Header.Layout, rows)
	var rounds []Round
	at, trajectories, numbers := 0, int64(0), &numbering{first: map[string]int32{}}
	for _, shards := range groups {
		if err := refuseSharedParts(shards); err != nil {
			return nil, nil, "", err
		}
		p := shards[0].Header.Provenance
		scenarios, err := numbers.of(&p)
		if err != nil {
			return nil, nil, "", err
		}
		whole := Dataset{Header: shards[0].Header}
		from := at
		for _, d := range shards {
			whole.rows += d.rows
			whole.hash.add(d.hash)
			if err := d.decode(c, at); err != nil {
				return nil, nil, "", err
			}
			at += d.rows
		}
		next := trajectories
		for i := from; i < at; i++ {
			if c.Trajectory[i] < 0 || c.Trajectory[i] >= math.MaxInt64-trajectories {
				return nil, nil, "", fmt.Errorf("offline: %s: trajectory %d, want 0 to %d", shards[0].dir, c.Trajectory[i], math.MaxInt64-trajectories-1)
			}
			c.Scenario[i] += scenarios
			c.Trajectory[i] += trajectories
			next = max(next, c.Trajectory[i]+1)
		}
		trajectories = next
		rounds = append(rounds, Round{
			SamplesSHA256: whole.Hash(), Samples: whole.rows, Seed: p.Seed, Scenarios: p.Scenarios, Policy: p.Policy, Distilled: p.Distilled, Program: p.Program, ISA: p.ISA,
		})
	}
	hash := rounds[0].SamplesSHA256
	if len(rounds) > 1 {
		sum := sha256.New()
		for _, r := range rounds {
			fmt.Fprintln(sum, r.SamplesSHA256)
		}
		hash = durable.Sum([sha256.Size]byte(sum.Sum(nil)))
	}
	return c, rounds, hash, nil
}

// numbering gives the scenarios of rounds numbers of their own.
type numbering struct {
	first map[string]int32
	next  int
}

// of is what is added to the scenarios of a round: as much as for an earlier round that
// draws the same ones, so that what is held out by scenario stays so.
func (n *numbering) of(p *Provenance) (int32, error) {
	key, err := json.Marshal([]any{p.Seed, p.Scenarios, p.Parameters, p.Distilled, p.Regime})
	if err != nil {
		return 0, fmt.Errorf("offline: %w", err)
	}
	first, known := n.first[string(key)]
	if known {
		return first, nil
	}
	first = int32(n.next)
	if n.next += p.Scenarios; n.next > maxScenarios {
		return 0, fmt.Errorf("offline: the datasets have more than %d scenarios", maxScenarios)
	}
	n.first[string(key)] = first
	return first, nil
}
