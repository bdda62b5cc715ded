package kernels

import "testing"

// What threads have beside their registers finds room in the first-level cache, and weights lose at most half of theirs.
func TestSharedRoomLeavesTheCache(t *testing.T) {
	const most = 227 << 10
	for _, c := range []struct{ rows, local, want int }{
		{8, 0, most}, {8, leastCache / (8 * sectorLanes), most}, {8, 1352, most + leastCache - 64*1352}, {16, 1352, most/2 + (most % 2)}, {8, 6032, most / 2},
	} {
		if got := sharedRoom(most, c.rows, c.local); got != c.want {
			t.Errorf("%d rows with %d bytes a thread: %d of shared memory, want %d", c.rows, c.local, got, c.want)
		}
	}
}
