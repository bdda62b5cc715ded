package dataset

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

// Round is one of several datasets that are loaded together: solved, solved at a policy's visited states, or
// distilled, with any seed. Its fields are those of its Provenance. SamplesSHA256 covers the loaded samples: those of
// some shards, if not all exist.
type Round = model.Round

// Load reads all samples of datasets of one layout. Datasets of one provenance are shards of one round, not
// necessarily all of them. The others are further rounds, in the given order. Different rounds get different numbers
// of trajectories and scenarios. Rounds that draw the same scenarios, as many from the same seed, share the scenario
// numbers. The hash identifies the samples; that of one round is that of its merged shards.
func Load(datasets ...*Dataset) (*Columns, []Round, string, error) {
	if len(datasets) == 0 {
		return nil, nil, "", errors.New("dataset: no dataset is given, want at least one folder")
	}
	var groups [][]*Dataset
	rows := 0
	for _, d := range datasets {
		first := &datasets[0].Header
		diff := d.Header.Layout.differs(first.Layout)
		if value, expected := d.Header.Provenance.Case, first.Provenance.Case; value != expected {
			diff = fmt.Sprintf("field case is %s, want %s", value, expected)
		}
		if value, expected := d.Header.Provenance.ProblemSHA256, first.Provenance.ProblemSHA256; diff == "" && value != expected {
			diff = fmt.Sprintf("they are of two problems of one name: field problem_sha256 is %s, want %s", value, expected)
		}
		if diff != "" {
			return nil, nil, "", fmt.Errorf("dataset: %s and %s cannot be used together: %s", d.dir, datasets[0].dir, diff)
		}
		if rows += d.rows; rows > maxRows {
			return nil, nil, "", fmt.Errorf("dataset: the datasets hold more than %d samples", maxRows)
		}
		row := slices.IndexFunc(groups, func(g []*Dataset) bool { return d.Header.differs(&g[0].Header) == "" })
		if row < 0 {
			row = len(groups)
			groups = append(groups, nil)
		}
		groups[row] = append(groups[row], d)
	}
	c := newColumns(datasets[0].Header.Layout, rows)
	var rounds []Round
	row, trajectories, numbers := 0, int64(0), &numbering{first: map[string]int32{}}
	for _, shards := range groups {
		if err := refuseSharedParts(shards); err != nil {
			return nil, nil, "", err
		}
		p := shards[0].Header.Provenance
		scenarios, err := numbers.offset(&p)
		if err != nil {
			return nil, nil, "", err
		}
		round := Dataset{Header: shards[0].Header}
		from := row
		for _, d := range shards {
			round.rows += d.rows
			round.hash.add(d.hash)
			if err := d.decode(c, row); err != nil {
				return nil, nil, "", err
			}
			row += d.rows
		}
		next := trajectories
		for i := from; i < row; i++ {
			if c.Trajectory[i] < 0 || c.Trajectory[i] >= math.MaxInt64-trajectories {
				return nil, nil, "", fmt.Errorf("dataset: %s: trajectory %d, want 0 to %d", shards[0].dir, c.Trajectory[i], math.MaxInt64-trajectories-1)
			}
			c.Scenario[i] += scenarios
			c.Trajectory[i] += trajectories
			next = max(next, c.Trajectory[i]+1)
		}
		trajectories = next
		rounds = append(rounds, Round{
			SamplesSHA256: round.Hash(), Samples: round.rows, Seed: p.Seed, Scenarios: p.Scenarios, Policy: p.Policy, Distilled: p.Distilled, Program: p.Program, ISA: p.ISA,
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

// numbering assigns scenario numbers to rounds.
type numbering struct {
	first map[string]int32
	next  int
}

// offset is added to the scenario numbers of a round. A round that draws the scenarios of an earlier one gets the
// same offset, so that scenarios that were held out stay so.
func (n *numbering) offset(p *Provenance) (int32, error) {
	key, err := json.Marshal([]any{p.Seed, p.Scenarios, p.Parameters, p.Distilled, p.Regime})
	if err != nil {
		return 0, fmt.Errorf("dataset: %w", err)
	}
	first, found := n.first[string(key)]
	if found {
		return first, nil
	}
	first = int32(n.next)
	if n.next += p.Scenarios; n.next > maxScenarios {
		return 0, fmt.Errorf("dataset: the datasets have more than %d scenarios", maxScenarios)
	}
	n.first[string(key)] = first
	return first, nil
}
