//go:build !ipopt

package main

import "errors"

func findIPOPT() (peer, error) {
	return peer{}, errors.New("IPOPT: this program was built without the tag ipopt, which needs coinor-libipopt-dev and a C compiler")
}
