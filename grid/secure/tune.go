package secure

import (
	"os"
	"strconv"
)

func env(k string, d float64) float64 {
	if v, err := strconv.ParseFloat(os.Getenv(k), 64); err == nil {
		return v
	}
	return d
}

var startSlack, startBarrier = env("SS", 0.1), env("SB", 0.1)

var widest, narrowest, widthOfBarrier = env("WIDE", 1e-2), env("NARROW", 1e-7), env("WB", 10)
var shortStep = env("SHORT", 0.1)
