package publish

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/lab/report"
)

// constant is one of the paper's, beside ours. The paper's value and where it stands are its own
// text; ours is read from the cases and the headers of their maps, but for what `typed` says, which
// a test holds to the code.
type constant struct {
	name, paper, where string
	ours               func(c *report.Case) string // of a case
	typed              [families]string            // in its place, by family
	code, why          string
	// replaced names the constant of `gpc eval pair --constant` with the paper's value, whose rows
	// are shown; with is a map that was trained with the paper's value in its place, by the end of
	// its file's name. notRun is the reason where there is neither.
	replaced string
	value    float64
	with     string
	notRun   string
}

// inwardMap ends the names of maps whose samples keep off every limit; their rows are in the table of projections.
const inwardMap = "-inward"

// families of cases: the paper's Case 1, Case 2, and Cases 3 and 4.
const families = 3

// familyCases are the cases of each family.
var familyCases = [families][]string{{"integrator-convex", "integrator-nonconvex"}, {"multiagent-static", "multiagent-moving"}, {"opf30", "opf30-uncertain"}}

// spec is of the problem that a case's map is about.
func specOf(c *report.Case) *domain.Spec { return c.Definition.MapProblem().Spec() }

func ofNavigation(value func(n *domain.Navigation) float64) func(c *report.Case) string {
	return func(c *report.Case) string { return fmt.Sprintf("%g", value(&specOf(c).Navigation)) }
}

func ofTraining(text func(t *domain.Training) string) func(c *report.Case) string {
	return func(c *report.Case) string { return text(&specOf(c).Training) }
}

const setupText = "“Experimental Setup”"

// paperConstants are the paper's constants in the order of its text.
var paperConstants = []constant{
	{
		name: "n_z, latent size", paper: "32 (30 buses)", where: setupText, ours: ofTraining(func(t *domain.Training) string { return fmt.Sprint(t.Latent) }),
		code: "`Training.Latent`", why: "Cases 1 and 2 have fewer variables; the paper gives none there.", notRun: "the same where the paper gives one",
	},
	{
		name: "width of hidden layers", paper: "256", where: setupText,
		ours: ofTraining(func(t *domain.Training) string {
			if t.Encoder > 0 {
				return fmt.Sprintf("%d, E_x %d", t.Hidden, t.Encoder)
			}
			return fmt.Sprint(t.Hidden)
		}),
		code: "`Training.Hidden`, `Encoder`", why: "Case 2: E_x runs once an observation, D_u once a candidate.", notRun: "Case 2 alone differs, and its map is hours of training",
	},
	{
		name: "epochs, manifold + rollout", paper: "500", where: setupText, ours: ofTraining(func(t *domain.Training) string { return fmt.Sprintf("%d + %d", t.ManifoldEpochs, t.RolloutEpochs) }),
		code: "`Training.ManifoldEpochs`, `RolloutEpochs`", why: "An epoch of ours draws a share by decoding error; the curves are flat by then.", with: "-long",
	},
	{
		name: "Adam's learning rate", paper: "10⁻³, cosine", where: setupText, ours: ofTraining(func(t *domain.Training) string { return fmt.Sprintf("%g, cosine", t.LearningRate) }),
		code: "`Training.LearningRate`", why: "the paper's", notRun: "the same",
	},
	{
		name: "κ, neighbours of the locality loss", paper: "10", where: setupText,
		ours: ofTraining(func(t *domain.Training) string {
			if t.LocalNeighbours < 0 {
				return "no locality loss"
			}
			return fmt.Sprint(t.LocalNeighbours)
		}),
		code: "`Training.LocalNeighbours`", why: "Case 2: in 185 dimensions the search for neighbours takes longer than the training.", notRun: "Cases 3 and 4 have it; Case 1's map was not trained again",
	},
	{
		name: "samples", paper: "60 000; 120 000 (Case 2, static; moving); 250 000 (Case 3)", where: "“Case 2”; " + setupText,
		ours: func(c *report.Case) string { return grouped(c.Samples) },
		code: "header of the map, `provenance.samples`", why: "Case 2: one map for every robot's view, in place of the joint scene. Cases 3 and 4: half of the loads have no solution.", notRun: "a sample is another thing in Case 2; in Case 3 not all loads can be solved",
	},
	{
		name: "scenarios", paper: "5000 loads (Case 3)", where: setupText, ours: ofTraining(func(t *domain.Training) string { return grouped(t.Scenarios) }),
		code: "`Training.Scenarios`", why: "the paper's; it gives none for Cases 1 and 2.", notRun: "the same",
	},
	{
		name: "weights of a scenario", paper: "50, uniform on Δ²", where: setupText,
		ours: ofTraining(func(t *domain.Training) string {
			design := cmp.Or(t.Design.Name, "random")
			if design == "mixed" { // offline: half of each
				design = fmt.Sprintf("mixed: %d of a lattice, %d logarithmic", t.Weights-t.Weights/2, t.Weights/2)
			}
			return fmt.Sprintf("%d, %s", t.Weights, design)
		}),
		code: "`Training.Weights`, `Design`", why: "The objectives' ranges differ by decades: a uniform lattice has next to no weights where the optimum changes.", with: "-uniform",
	},
	{
		name: "η, tightening of the training's limits", paper: "0.01 pu, as an example", where: "assumption on margins",
		typed: [families]string{"ψ by 0.003; targets lifted outward by up to 0.12 m/s²", "0.02 m", "V 0.002, Q 0.004, S 0.0025 pu"},
		code:  "`integrator.DatasetClearance`, `LiftReach`; `plan.Default`; `opf.DatasetTightening`", why: "A projection follows, so that less keeps the limits and costs less.", with: inwardMap,
	},
	{
		name: "base, what D_u's plan is relative to", paper: "none: D_u gives the action", where: "alg. online",
		typed: [families]string{"the previous action", "the way home", "the merit order, V_G 1 pu"},
		code:  "`Base` of each problem", why: "What is learned is small, and projection and slew bound are near.", notRun: "it would be another problem for the networks: every map anew",
	},
	{
		name: "ε of the energy", paper: "0.05", where: setupText, ours: ofNavigation(func(n *domain.Navigation) float64 { return n.Epsilon }),
		code: "`Navigation.Epsilon`", why: "chosen with Δt on validation scenes; either does.", replaced: "epsilon", value: 0.05,
	},
	{
		name: "α, smoothing of z", paper: "0.3", where: setupText, ours: ofNavigation(func(n *domain.Navigation) float64 { return n.Smoothing }),
		code: "`Navigation.Smoothing`", why: "In force while noise is estimated alone. Cases 2 to 4 do not estimate it: the projection knows network, loads and bodies.", replaced: "smoothing", value: 0.3,
	},
	{
		name: "Δt of the flow", paper: "5 s (Case 3); Δt/ε = 100", where: setupText + "; the bounds' proofs", ours: ofNavigation(func(n *domain.Navigation) float64 { return n.LatentStep }),
		code: "`Navigation.LatentStep`", why: "The field is the myopic gradient, and the decoder is already optimal over the horizon.", replaced: "latent-step", value: 5,
	},
	{
		name: "k, eigendirections", paper: "typically 3", where: "“Lie-local residual correction”", ours: ofNavigation(func(n *domain.Navigation) float64 { return float64(n.TopK) }),
		code: "`Navigation.TopK`", why: "a fourth rotates by itself as little as the others.", replaced: "top-k", value: 3,
	},
	{
		name: "γ_L", paper: "0.05 to 0.2", where: "eq. final-update", ours: ofNavigation(func(n *domain.Navigation) float64 { return n.LieGain }),
		code: "`Navigation.LieGain`", why: "within the paper's range.", notRun: "the same; without it, and larger: [steps that act](#steps-that-act)",
	},
	{
		name: "s_L, scale of the rotation", paper: "no value", where: "“Lie-local residual correction”", ours: ofNavigation(func(n *domain.Navigation) float64 { return n.LieScale }),
		code: "`Navigation.LieScale`", why: "of the size of γ_L.", notRun: "the paper gives no value",
	},
	{
		name: "gains of σ: k_i/ε_i; ρ", paper: "k_i > 0, ε_i ∈ (0, 1], ρ > 0", where: "eq. iclr-semantic",
		ours: func(c *report.Case) string {
			s := specOf(c).Semantic
			var gains []string
			for i, k := range s.K {
				gains = append(gains, fmt.Sprintf("%.4g", k/s.Epsilon[i]))
			}
			return strings.Join(gains, ", ") + fmt.Sprintf("; %g", s.Rho)
		},
		code: "`Spec.Semantic`", why: "The paper gives ranges. σ is part of what an episode costs.", notRun: "the paper gives no value",
	},
	{
		name: "steps of a plan", paper: "H = 8 (Case 2)", where: "“Safe Multi-Agent Navigation”", ours: func(c *report.Case) string { return fmt.Sprint(specOf(c).Plan) },
		code: "`Spec.Plan`", why: "Case 2: a commitment is proven safe for all of its steps; the cost's horizon is 8.", notRun: "`planner-no-lookahead` is H = 8: [Case 2](docs/results/robots.md)",
	},
	{
		name: "candidates of a decision", paper: "4096; the reference 384 (Case 2)", where: "“Case 2”",
		ours: func(c *report.Case) string {
			var n []string
			for _, m := range c.Methods {
				if m.Candidates > 0 && (m.Name == report.Planner || m.Name == "reference") {
					n = append(n, fmt.Sprintf("`%s` %d", m.Name, m.Candidates))
				}
			}
			return cmp.Or(strings.Join(n, ", "), "none: one latent")
		},
		code: "methods of the case", why: "the paper's", notRun: "the same",
	},
}

// grouped is a number with its thousands apart.
func grouped(n int) string {
	if n < 10000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s %03d", grouped(n/1000), n%1000)
}

// oursIn are a constant's values in a family of cases; a dash where none is known.
func (k *constant) oursIn(d devices, family int) string {
	if k.typed[family] != "" {
		return k.typed[family]
	}
	var all []string
	for _, name := range familyCases[family] {
		for _, r := range d {
			if c, ok := r.Cases[name]; ok && c.Definition.Problem != nil {
				if text := k.ours(&c); !slices.Contains(all, text) {
					all = append(all, text)
				}
				break
			}
		}
	}
	return report.OrDash(strings.Join(all, " / "))
}

// constants is the table of the paper's constants beside ours.
func (d devices) constants() string {
	s := report.Section{Rows: [][]string{{"constant", "paper", "there", "Case 1", "Case 2", "Cases 3, 4", "in the code", "why", "with the paper's value"}}}
	for i := range paperConstants {
		k := &paperConstants[i]
		run := k.notRun
		switch {
		case run != "":
		case k.with == inwardMap:
			run = "Case 1: [below](#without-the-projection); elsewhere it is a map anew"
		default:
			run = "[below](#with-the-papers-value)"
		}
		s.Rows = append(s.Rows, []string{k.name, k.paper, k.where, k.oursIn(d, 0), k.oursIn(d, 1), k.oursIn(d, 2), k.code, k.why, run})
	}
	return report.Tables(s)
}

// replaced are the runs with one of the paper's constants in place of ours, beside those with ours,
// and maps that were trained with one beside maps of the same data without.
func (d devices) replacedConstants() string {
	s := report.Section{Rows: [][]string{{"case", "loads", "noise", "constant", "safe, ours", "safe, paper's", "cost above ours, % [95 %]", "median", "n"}}}
	var shown []closedloop.Pairing
	for _, r := range report.RunsOf(d, (*report.Records).PairedCases) {
		for _, p := range report.Of[closedloop.Pairing](r.Records) {
			if p.Case != r.Name || !report.ByConstants(&p) || stepped(&p) {
				continue
			}
			shown = append(shown, p)
			for i := range paperConstants {
				k := &paperConstants[i]
				for _, m := range p.Pairs[1:] {
					if v, ok := m.Constants[k.replaced]; k.replaced != "" && ok && v == k.value {
						s.Rows = append(s.Rows, slices.Concat([]string{r.Name, report.OrDash(p.Regime), fmt.Sprint(p.Noise), fmt.Sprintf("%s = %g", k.name, k.value), safeShare(&p.Pairs[0]), safeShare(&m)}, costCells(&m)))
					}
				}
			}
		}
		for i := range paperConstants {
			k := &paperConstants[i]
			if k.with == "" || k.with == inwardMap { // of the projection's table
				continue
			}
			for _, p := range report.Of[closedloop.Pairing](r.Records) {
				if p.Case == r.Name && len(p.Pairs) == 2 && p.Pairs[0].Method == p.Pairs[1].Method && strings.HasSuffix(p.Map.File, k.with) {
					shown = append(shown, p)
					own, m := &p.Pairs[0], &p.Pairs[1]
					s.Rows = append(s.Rows, slices.Concat([]string{r.Name, report.OrDash(p.Regime), fmt.Sprint(p.Noise), fmt.Sprintf("%s: map `%s`", k.name, p.Map.File), safeShare(own), safeShare(m)}, costCells(m)))
				}
			}
		}
	}
	s.Provenance = report.RecordedBy(shown)
	return report.Tables(s)
}

// costCells are by how much a row's episodes cost more than the first's, to the digits of small
// differences.
func costCells(m *closedloop.Paired) []string {
	if m.Cost.N == 0 {
		return []string{"–", "–", "0"}
	}
	return []string{m.Cost.Mean.Text("%+.4f") + " " + report.Interval("%+.4f", m.Cost.MeanCI95), m.Cost.Median.Text("%+.4f"), fmt.Sprint(m.Cost.N)}
}

// projections are the decisions with and without the projection, on the bundled maps and on maps of
// less data: of lifted targets, and of targets that keep off the limits.
func (d devices) projections() string {
	headings := []string{"case", "map", "samples", "sha256", "method", "safe", "decisions that break a limit", "least margin", "cost above the optimum, % ± 95 %", "n"}
	return d.paired("", headings, (*report.Records).PairedCases, projectionPairings, func(r report.Run, p *closedloop.Pairing, i int) []string {
		m := &p.Pairs[i]
		return []string{
			r.Name, "`" + cmp.Or(p.Map.File, report.BundledMap) + "`", grouped(p.Map.Samples), sumHead(m.ModelSHA256), "`" + m.Method + "`", safeShare(m),
			fmt.Sprintf("%d of %d", m.Violations, m.Decisions), m.MarginMin.Text("%.2g"), report.Estimate("%.4f", m.RegretPct, m.RegretCI95), fmt.Sprint(m.RegretN),
		}
	})
}

// sumHead is the beginning of a sum, which tells files apart.
func sumHead(sum string) string { return "`" + sum[:min(len(sum), 12)] + "`" }

// projectionPairings are a case's, the bundled map's first, then by the map's name.
func projectionPairings(r report.Run) (out []closedloop.Pairing) {
	out = report.Where(r.Records, func(p *closedloop.Pairing) bool { return p.Case == r.Name && report.UnprojectedAside(p) })
	slices.SortStableFunc(out, func(a, b closedloop.Pairing) int { return cmp.Compare(a.Map.File, b.Map.File) })
	return out
}
