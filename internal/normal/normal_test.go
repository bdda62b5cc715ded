package normal

import (
	"math"
	"slices"
	"testing"
)

// The words that the authors of Philox publish with their code (kat_vectors of Random123).
func TestPhilox(t *testing.T) {
	for _, c := range []struct {
		seed     uint64
		counter  [4]uint32
		expected [4]uint32
	}{
		{0, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{math.MaxUint64, [4]uint32{math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{0x299f31d0a4093822, [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(c.seed, c.counter); got != c.expected {
			t.Errorf("%x at %x: %x, want %x", c.seed, c.counter, got, c.expected)
		}
	}
}

// The table is the quantile function, at its joints and to the ends of its tails.
func TestQuantile(t *testing.T) {
	for octave := range 31 {
		for step := range 1000 {
			x := uint32(math.Ldexp(1+float64(step)/1000, octave))
			p := (2*float64(x) + 1) / (1 << 33)
			want := math.Sqrt2 * math.Erfinv(1-2*p)
			if got := quantiles().at(x); math.Abs(got-want) > 3e-6 {
				t.Fatalf("bits %#x: %.9g, want %.9g", x, got, want)
			}
			if got := quantiles().at(x | 1<<31); math.Abs(got+want) > 3e-6 {
				t.Fatalf("bits %#x: %.9g, want %.9g", x|1<<31, got, -want)
			}
		}
	}
	if low, high := quantiles().at(0), quantiles().at(math.MaxInt32); !(low > 6 && low < 7) || math.Abs(high) > 1e-6 {
		t.Errorf("the ends are %g and %g", low, high)
	}
}

// A million numbers have the moments of a normal distribution and are, by Kolmogorov and Smirnov's statistic, from it.
func TestMoments(t *testing.T) {
	const n = 1 << 20
	z := make([]float64, n)
	for i := range n / 64 {
		Fill(z[64*i:64*(i+1)], 7, Place{Number: uint32(i), Decision: 3, Stream: 5})
	}
	var m [5]float64
	for _, v := range z {
		for p, power := 0, 1.0; p < len(m); p, power = p+1, power*v {
			m[p] += power / n
		}
	}
	for p, want := range []float64{1, 0, 1, 0, 3} {
		if math.Abs(m[p]-want) > 5*math.Sqrt(96)/math.Sqrt(n) {
			t.Errorf("moment %d: %g, want %g", p, m[p], want)
		}
	}
	slices.Sort(z)
	worst := 0.0
	for i, v := range z {
		worst = max(worst, math.Abs(0.5*math.Erfc(-v/math.Sqrt2)-(float64(i)+0.5)/n))
	}
	if worst*math.Sqrt(n) > 1.95 { // probability 0.001
		t.Errorf("Kolmogorov and Smirnov's statistic is %.2f", worst*math.Sqrt(n))
	}
}

// A run is part of a longer one, and no two places share theirs.
func TestPlaces(t *testing.T) {
	long, short := make([]float64, 37), make([]float64, 6)
	at := Place{1, 2, 3}
	Fill(long, 11, at)
	Fill(short, 11, at)
	if !slices.Equal(long[:6], short) {
		t.Errorf("%v begins %v", short, long[:6])
	}
	for _, other := range []Place{{2, 2, 3}, {1, 1, 3}, {1, 2, 4}} {
		if Fill(short, 11, other); slices.Equal(long[:6], short) {
			t.Errorf("%v has the numbers of %v", other, at)
		}
	}
	if Fill(short, 12, at); slices.Equal(long[:6], short) {
		t.Error("two seeds have the same numbers")
	}
}
