package domain

// Escaping is implemented by a problem that knows an action which leads away from its limits, such as braking: whoever
// takes it at every step keeps the limits for longest. Escape writes it for a state, within its box, and reports whether there is one.
type Escaping interface {
	Escape(s, c, u []float64) bool
}
