package rollout

import (
	"errors"

	"github.com/gpc-engine/gpc/domain"
)

// NewEvaluator returns the evaluator of an accelerator, nil for this CPU. Where the
// accelerator has no device, or loses it (errors.ErrUnsupported), it goes on on this CPU.
func NewEvaluator(a domain.Accelerator) (Evaluator, error) {
	if a != nil {
		if d, err := NewDevice(a); !errors.Is(err, errors.ErrUnsupported) {
			return &continuing{now: d}, err
		}
	}
	engine, err := New()
	return NewProcessor(engine), err
}

// continuing is a Device until that is lost.
type continuing struct {
	now    Evaluator
	failed Evaluator // keeps the memory that Plans has given
}

// try makes a call, again on this CPU if the device was lost.
func (c *continuing) try(call func(Evaluator) error) error {
	err := call(c.now)
	if errors.Is(err, errors.ErrUnsupported) {
		if err = c.lose(); err == nil {
			err = call(c.now)
		}
	}
	return err
}

// lose goes on on this CPU.
func (c *continuing) lose() (err error) {
	c.failed = c.now
	c.now, err = NewEvaluator(nil)
	return err
}

func (c *continuing) Plans(p *Joint, candidates int) (plans []float32, err error) {
	err = c.try(func(v Evaluator) (err error) {
		plans, err = v.Plans(p, candidates)
		return err
	})
	return plans, err
}

func (c *continuing) Evaluate(p *Joint, bounds []Bounds[float32], plans []float32, candidates int, results []Result, out []float32) error {
	return c.try(func(v Evaluator) error { return v.Evaluate(p, bounds, plans, candidates, results, out) })
}

func (c *continuing) Descend(p *Joint, bounds []Bounds[float32], rates *[Lanes]float32, factors, plans []float32, results []Result) (bool, error) {
	d, ok := c.now.(Descender)
	if !ok {
		return false, nil
	}
	handled, err := d.Descend(p, bounds, rates, factors, plans, results)
	if errors.Is(err, errors.ErrUnsupported) {
		return false, c.lose()
	}
	return handled, err
}
