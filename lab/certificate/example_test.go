package certificate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/lab/certificate"
	"github.com/gpc-engine/gpc/paper"
)

// The paper's conditions on a map, each with what holds.
func ExampleOf() {
	cases := paper.Cases()
	c, err := cases.Find("opf30")
	if err != nil {
		log.Fatal(err)
	}
	e, err := gpc.OpenEngine(engine.Options{Backend: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	out, err := certificate.Of(context.Background(), c, e, gpc.Setup{}, 2, 1, certificate.Options{Seed: 1, Steps: 5, Perturbation: 0.1}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("conditions:", len(out.Certificate.Conditions) > 0, "· decisions of the loop:", out.Certificate.Measured.Decisions)
	// Output: conditions: true · decisions of the loop: 300
}
