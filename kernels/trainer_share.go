package kernels

import "github.com/gpc-engine/gpc/kernels/driver"

// share is what a trainer among those of a Group has besides: a slot for the gradient of
// each of them, a whole arena of the layout. Its own it fills itself, the others it copies
// from where they were made.
type share struct {
	index, count int // this one of so many; of 0: a trainer alone
	slots        address
}

// slot is where the gradient of trainer i of the group lies.
func (t *Trainer) slot(i int) address { return floats(t.share.slots, i*t.layout.size) }

// trainTerms is gpc_train_terms of train_sum.cu.
type trainTerms struct {
	from, to              address
	step                  int64
	terms, size, first, _ int32
}

// add launches sums of partial gradients; first is set here.
func (p *planner) add(list []trainTerms) {
	grid, traffic := 0, 0.0
	for i := range list {
		list[i].first = int32(grid)
		grid += ceil(int(list[i].size), adamBlock)
		traffic += 4 * float64(list[i].size) * float64(list[i].terms+1)
	}
	p.launchWith(bytesOf(list), "gpc_train_sum", grid, adamBlock/4, 0, driver.Int32(len(list)))
	p.plan.launches[len(p.plan.launches)-1].work = work{bytes: traffic}
}

// finish ends a step: the update, or in a group the sum of this trainer's gradient in its
// slot.
func (p *planner) finish(parts []layerParts) {
	t := p.t
	if t.share.count == 0 {
		p.update(parts)
		return
	}
	list := make([]trainTerms, len(parts))
	for i, part := range parts {
		l := part.layer
		list[i] = trainTerms{from: part.partial, to: floats(t.slot(t.share.index), l.offset), step: int64(l.size), terms: int32(part.splits), size: int32(l.size)}
	}
	p.add(list)
}

// updateFromSlots plans the update by the gradients in the first key.rows slots, in their order:
// of all networks, or of D_u. Their sums lie where the partial ones did.
func (p *planner) updateFromSlots(key planKey) {
	t := p.t
	nets := t.layout.nets[:]
	if key.rollout {
		nets = nets[2:3]
	}
	var list []trainTerms
	var parts []layerParts
	for _, net := range nets {
		for _, l := range net {
			sum := floats(t.gradient, l.gradient)
			list = append(list, trainTerms{from: floats(t.slot(0), l.offset), to: sum, step: int64(t.layout.size), terms: int32(key.rows), size: int32(l.size)})
			parts = append(parts, layerParts{l, 1, sum})
		}
	}
	p.add(list)
	p.update(parts)
	p.plan.early, p.plan.upload = len(p.plan.launches), 0
}

// exchange brings the gradients of the others into their slots. When it returns they may
// make the next ones.
func (t *Trainer) exchange(members []*Trainer, rollout bool, header [batchHeader]float32) error {
	from, to := 0, t.layout.size
	if rollout {
		net := t.layout.nets[2]
		last := net[len(net)-1]
		from, to = net[0].offset, last.offset+last.size
	}
	return t.backend.execute(func(th *driver.Thread) error {
		q := t.backend.queue(th)
		copy(driver.HostSlice[float32](t.batchHost, 0, batchHeader), header[:])
		q.upload(t.batch, t.batchHost, 0, 4*batchHeader)
		for i, other := range members {
			if other != t {
				q.enqueue(func() error {
					return th.CopyPeerAsync(floats(t.slot(i), from), other.backend.context, floats(other.slot(i), from), 4*(to-from), q.stream)
				})
			}
		}
		return q.wait()
	})
}

// advance queues the update by the gradients of so many members. A fault in it shows at
// the next call.
func (t *Trainer) advance(members int, rollout bool) error {
	return t.backend.execute(func(th *driver.Thread) error {
		plan, err := t.planFor(th, planKey{rollout: rollout, rows: members, fromSlots: true})
		if err != nil {
			return err
		}
		q := t.backend.queue(th)
		t.launchPlan(q, plan)
		return q.err
	})
}

// settle waits for the update that is under way.
func (t *Trainer) settle() error {
	return t.backend.execute(func(th *driver.Thread) error { return th.Wait(t.backend.stream) })
}
