package rollout

// Reach is the largest margin that is told apart, m: eq. multiagent-objectives
// clips margins there, and smallest margins are reported up to it.
const Reach = 3

// expReach is exp(−Reach), the score of a margin beyond it.
const expReach = 0.049787068367863944

// constants is the table that the kernels read, each number repeated in every
// lane; the generator has its order.
var constants = func() (table [20]Vector[float32]) {
	for i, c := range [...]float32{
		0.5, 1, 2,
		-1.0 / 6, 1.0 / 120, // sine: x(1 − x²/6 + x⁴/120)
		-1.0 / 2, 1.0 / 24, -1.0 / 720, // cosine
		tinySquare, -3, 3,
		-1.44269504, // −log₂ e
		// 2^f for |f| ≤ 1/2, least maximal error (Cephes, exp2f)
		6.931472028550421e-1, 2.402264791363012e-1, 5.550332471162809e-2, 9.618437357674640e-3, 1.339887440266574e-3, 1.535336188319500e-4,
		Reach, expReach,
	} {
		table[i] = Repeat(c)
	}
	return table
}()
