// Command bundle packs the files of a bundle for a machine with a GPU, and unpacks them
// there.
//
//	bundle pack ARCHIVE FILE…
//	bundle unpack ARCHIVE DIR
//
// An archive is a tar file under zstd with a window as large as all programs together:
// these embed the same images and maps, which are so kept once.
package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// window is more than the programs of a bundle take.
const window = 128 << 20

func main() {
	err := errors.New("usage: bundle pack ARCHIVE FILE… | bundle unpack ARCHIVE DIR")
	switch a := os.Args[1:]; {
	case len(a) > 2 && a[0] == "pack":
		err = pack(a[1], a[2:])
	case len(a) == 3 && a[0] == "unpack":
		err = unpack(a[1], a[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// pack writes the files, by their names without folders, each as its owner may run it.
func pack(archive string, files []string) (err error) {
	out, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	z, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	t := tar.NewWriter(z)
	defer func() { err = errors.Join(err, t.Close()) }()
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Name: filepath.Base(path), Mode: int64(info.Mode().Perm()), Size: int64(len(content))}); err != nil {
			return err
		}
		if _, err := t.Write(content); err != nil {
			return err
		}
	}
	return nil
}

func unpack(archive, dir string) error {
	in, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer in.Close()
	z, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(window), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	t := tar.NewReader(z)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		out, err := os.OpenFile(filepath.Join(dir, filepath.Base(h.Name)), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, os.FileMode(h.Mode))
		if err != nil {
			return err
		}
		_, err = io.Copy(out, t)
		if err := errors.Join(err, out.Close()); err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
	}
}
