// Package bundled has the cases that the program gpc and the library of Python come with, and their bundled maps:
// the systems of the gallery, networks, and the cases of the paper.
package bundled

import (
	"errors"
	"io/fs"
	"sync"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/examples/gallery"
	"github.com/gpc-engine/gpc/examples/gallery/models"
	"github.com/gpc-engine/gpc/paper"
)

// The groups of cases, in the order of lists.
const (
	Systems  = "systems"
	Switched = "switched"
	Networks = "networks"
	Paper    = "the paper"
)

// Cases are those of all groups; opf:FILE.m and opf-secure:FILE.m name others.
func Cases() gpc.Catalogue {
	k := paper.Catalogue()
	add := func(list []gpc.Later, group string) {
		for _, of := range list {
			k.Later = append(k.Later, gpc.Later{Name: of.Name, Make: sync.OnceValue(func() domain.Case {
				c := of.Make()
				c.Group = group
				return c
			})})
		}
	}
	add(systems(append(gallery.All(), gallery.Ways()...)), Systems)
	add(systems(gallery.Switched()), Switched)
	for _, l := range paper.Later() {
		group := Paper
		if l.Name == "opf-secure" {
			group = Networks
		}
		add([]gpc.Later{l}, group)
	}
	k.Groups = []gpc.Group{
		{Name: Systems, About: "of the field, from their published definitions; parking and arm are our own"},
		{Name: Switched, About: "inputs that are on or off, or one of a few values, some with least times"},
		{Name: Networks, About: "opf:FILE.m is the dispatch of any other, such as opf:case118.m, and opf-secure:FILE.m one that survives outages"},
		{Name: Paper, About: "its Cases 1 to 4"},
	}
	k.Models = folders{models.Bundled, k.Models}
	return k
}

func systems(list []gallery.Named) (all []gpc.Later) {
	for _, of := range list {
		all = append(all, gpc.Later{Name: of.Name, Make: func() domain.Case {
			c, err := of.System().Case()
			if err != nil {
				panic("bundled: " + err.Error()) // of what is compiled in, which tests make
			}
			return c
		}})
	}
	return all
}

// folders are several as one: a file is of the first that has it.
type folders []fs.FS

func (f folders) Open(name string) (file fs.File, err error) {
	for _, folder := range f {
		if file, err = folder.Open(name); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return file, err
}
