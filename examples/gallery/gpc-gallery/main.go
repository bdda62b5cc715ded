// Command gpc-gallery is the gpc command line with the systems of the gallery and their maps.
package main

import (
	"fmt"
	"os"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/examples/gallery"
	"github.com/gpc-engine/gpc/examples/gallery/models"
)

func main() {
	cases, err := gallery.Cases()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpc-gallery:", err)
		os.Exit(1)
	}
	os.Exit(cli.Main(&cli.App{Name: "gpc-gallery", Catalogue: gpc.Catalogue{Cases: cases, Models: models.Bundled}}))
}
