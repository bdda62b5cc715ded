package world

import (
	"encoding/binary"
	"math/rand/v2"
)

// noiseSource is the generator of the measurement noise of one test episode,
// apart from that of any scene.
func noiseSource(seed, index uint64) *rand.Rand {
	var key [32]byte
	copy(key[:], "gpc multi noise")
	binary.LittleEndian.PutUint64(key[16:], seed)
	binary.LittleEndian.PutUint64(key[24:], index)
	return rand.New(rand.NewChaCha8(key))
}
