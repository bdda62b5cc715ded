// Command pages brings the generated parts of README.md and docs up to date with the recorded runs of all devices:
//
//	go run ./lab/publish/pages
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/gpc-engine/gpc/lab/dynamicprogram"
	"github.com/gpc-engine/gpc/lab/publish"
	"github.com/gpc-engine/gpc/lab/report"
)

func main() {
	results := flag.String("results", "lab/results", "`folder` of recorded runs, one folder per device")
	root := flag.String("root", ".", "`folder` of README.md and docs")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "pages: %q is not taken: all is said by flags\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	written, err := write(ctx, *results, *root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
	for _, page := range written {
		fmt.Println(page)
	}
}

// write gives the pages that differed.
func write(ctx context.Context, results, root string) ([]string, error) {
	catalogue := dynamicprogram.Cases()
	all, err := report.LoadAll(ctx, results, report.CasesOf(catalogue.All()))
	if err != nil {
		return nil, err
	}
	return publish.WriteDocuments(root, true, all...)
}
