//go:build !ipopt

package main

import (
	"errors"
	"time"

	"github.com/gpc-engine/gpc/grid/network"
)

func rivalName() string { return "IPOPT" }

var errNoIPOPT = errors.New("IPOPT: this program was built without the tag ipopt, which needs build/ipopt (make build/ipopt/casadi) and a C++ compiler")

func findIPOPT() (peer, error) { return peer{}, errNoIPOPT }

func newRival(*network.Network, time.Duration) (rival, error) { return nil, errNoIPOPT }
