package closedloop

import (
	"math"
	"sync"

	"github.com/gpc-engine/gpc/domain"
)

// optimum is what the reference of an episode costs, NaN with a failure where it could not be found.
type optimum struct {
	cost    Number
	failure string
}

// optimumOf asks the episode.
func optimumOf(ep domain.Episode) optimum {
	cost, _, err := ep.Oracle()
	if err != nil {
		return optimum{Number(math.NaN()), err.Error()}
	}
	return optimum{cost: Number(cost)}
}

// noOptimum is of an episode whose optimum was not computed.
var noOptimum = optimum{cost: Number(math.NaN())}

// optima remember the costs of the references of episodes, for methods that run on the same ones. The optimum of an
// episode does not depend on how it was driven.
type optima struct {
	mu        sync.Mutex
	byEpisode map[int]optimum
}

// ask is the optimum of an episode by its number; of those that do not remember it is asked anew.
func (o *optima) ask(number int, ep domain.Episode) optimum {
	if o == nil {
		return optimumOf(ep)
	}
	o.mu.Lock()
	cached, ok := o.byEpisode[number]
	o.mu.Unlock()
	if ok {
		return cached
	}
	cached = optimumOf(ep) // no two threads have one episode
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byEpisode == nil {
		o.byEpisode = map[int]optimum{}
	}
	o.byEpisode[number] = cached
	return cached
}
