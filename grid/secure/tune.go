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

var firstPrice = env("RHO", 100)
