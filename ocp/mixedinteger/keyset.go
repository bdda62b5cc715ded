package mixedinteger

// keySet is a set of keys, cleared at no cost.
type keySet struct {
	slots []slot // a power of two
	epoch uint64
	size  int
}

type slot struct{ key, epoch uint64 }

func (k *keySet) clear() { k.epoch, k.size = k.epoch+1, 0 }

// add reports whether the key is new.
func (k *keySet) add(key uint64) bool {
	if 2*k.size >= len(k.slots) {
		k.grow()
	}
	mask := uint64(len(k.slots) - 1)
	for i := key & mask; ; i = (i + 1) & mask {
		switch s := &k.slots[i]; {
		case s.epoch != k.epoch:
			*s = slot{key, k.epoch}
			k.size++
			return true
		case s.key == key:
			return false
		}
	}
}

func (k *keySet) grow() {
	old := k.slots
	k.slots, k.size = make([]slot, max(1024, 2*len(old))), 0
	for _, s := range old {
		if s.epoch == k.epoch {
			k.add(s.key)
		}
	}
}
