// Command serve-client drives a plant of its own by a running gpc serve: the point mass of the case
// integrator-convex, past its ellipse.
//
//	gpc serve integrator-convex --listen 127.0.0.1:8080 &
//	go run ./examples/serve-client
//
// client.py beside it is the same in Python.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/gpc-engine/gpc/serve"
)

func main() {
	at := flag.String("connect", "http://127.0.0.1:8080", "http://HOST:PORT or unix:PATH of a gpc serve")
	flag.Parse()
	if err := drive(context.Background(), *at, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

const (
	steps = 20
	dt    = 0.2 // s
)

func drive(ctx context.Context, at string, out io.Writer) error {
	client, err := serve.Dial(at, serve.ClientOptions{})
	if err != nil {
		return err
	}
	defer client.Close()
	s := []float64{-3.4, 0.2, 0.3, 0}  // position, m; velocity, m/s
	c := []float64{0, 0, 0.15, 0.1, 0} // last action, m/s²; the ellipse's way and speed; t/T
	for t := range steps {
		now := time.Now()
		d, err := client.Decide(ctx, "example", serve.Request{S: s, C: c, Deadline: now.Add(time.Second), Observed: now})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%2d  position %6.3f %6.3f  action %6.3f %6.3f  feasible %t\n", t, s[0], s[1], d.U[0], d.U[1], d.Feasible)
		for i, u := range d.U {
			s[i] += dt*s[2+i] + 0.5*dt*dt*u
			s[2+i] += dt * u
			c[i] = u
		}
		c[2], c[4] = c[2]+c[3]*dt, float64(t+1)/steps
	}
	return client.Reset(ctx, "example")
}
