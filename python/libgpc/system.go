package main

/*
#include <stdint.h>
*/
import "C"

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/compile"
	"github.com/gpc-engine/gpc/domain/diagnosis"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/serve"
)

// findCase is the case of the system in a text, or where that is "" of a name or file.
func findCase(name, system string) (*gpc.Case, error) {
	if last := lastSystem.Load(); last != nil && system == last.text {
		return last.c, nil
	}
	if system != "" {
		return gpc.SystemText([]byte(system))
	}
	return catalogue().Find(name)
}

// textCase is a system's text and its case.
type textCase struct {
	text string
	c    *gpc.Case
}

var lastSystem atomic.Pointer[textCase] // that gpc_system has answered: who checks it goes on with it

// gpc_system checks the file of a system and answers its one form in bytes with the hashes.
//
//export gpc_system
func gpc_system(text *C.char, out **C.char, err **C.char) C.int32_t {
	return try(err, func() error {
		c, err := gpc.SystemText([]byte(C.GoString(text)))
		if err != nil {
			return err
		}
		f, err := c.System()
		if err != nil {
			return err
		}
		marshalled, err := f.Marshal()
		if err != nil {
			return err
		}
		lastSystem.Store(&textCase{string(marshalled), c})
		identity, err := f.Identity()
		return answer(out, map[string]any{"text": string(marshalled), "sha256": durable.Sum(identity), "problem_sha256": c.Describe().ProblemSHA256, "remarks": c.Remarks()}, err)
	})
}

// gpc_check answers what a check of a case finds.
//
//export gpc_check
func gpc_check(opt *C.char, out **C.char, err **C.char) C.int32_t {
	return withOptions(opt, err, func(o *struct {
		Case   string `json:"case"`
		System string `json:"system"`
		Own    bool   `json:"own"` // of a user's system alone, without remarks on its integrator
	}) error {
		c, err := findCase(o.Case, o.System)
		if err != nil {
			return err
		}
		check := c.Check
		if o.Own {
			check = c.Findings
		}
		return answer(out, append(diagnosis.Findings{}, check()...))
	})
}

// event is what a compilation reports: a stage that has begun, or a round that has ended.
type event struct {
	Stage  string         `json:"stage,omitempty"`
	Number int            `json:"number,omitempty"`
	Round  *compile.Round `json:"round,omitempty"`
}

// gpc_events answers what a run has reported since the last call.
//
//export gpc_events
func gpc_events(h C.uintptr_t, out **C.char, err **C.char) C.int32_t {
	return onHandle(h, err, func(r *run) error {
		r.mu.Lock()
		events := append([]event{}, r.events...)
		r.events = nil
		r.mu.Unlock()
		return answer(out, events)
	})
}

// report keeps what a compilation says for gpc_events and gpc_progress.
func (r *run) report() func(compile.Progress) {
	stage := ""
	return func(p compile.Progress) {
		if p.Round == nil {
			r.progress(p.Done, p.Total)
			if p.Stage == stage {
				return
			}
			stage = p.Stage
		}
		r.mu.Lock()
		r.events = append(r.events, event{p.Stage, p.Number, p.Round})
		r.mu.Unlock()
	}
}

//export gpc_compile
func gpc_compile(opt *C.char, out **C.char, cancel C.uintptr_t, err **C.char) C.int32_t {
	return withOptions(opt, err, func(o *struct {
		Case       string  `json:"case"`
		System     string  `json:"system"`
		Out        string  `json:"out"`
		Target     float64 `json:"target_pct"`
		Tail       float64 `json:"tail_pct"`
		Budget     float64 `json:"budget_s"`
		BudgetCPU  bool    `json:"budget_cpu"`
		Rounds     int     `json:"rounds"`
		Scenarios  int     `json:"scenarios"`
		Starts     int     `json:"starts"`
		TestStarts int     `json:"test_starts"`
		Seed       uint64  `json:"seed"`
		Threads    int     `json:"threads"`
		Gains      float64 `json:"uncertain_gains"`
		plant
		measured
	}) error {
		run, err := runOf(cancel)
		if err != nil {
			return err
		}
		c, err := findCase(o.Case, o.System)
		if err == nil {
			c, err = gains(c, o.Gains)
		}
		if err != nil {
			return err
		}
		if c, err = o.measured.apply(c, o.Gains != 0); err != nil {
			return err
		}
		if c, err = o.drives(c, c); err != nil {
			return err
		}
		if err := checkOutput("out", o.Out, o.Case, o.plant.Name); err != nil {
			return err
		}
		r, err := compile.Run(run, c, compile.Options{
			Out: o.Out, Target: o.Target, Tail: o.Tail, Budget: time.Duration(o.Budget * float64(time.Second)), BudgetCPU: o.BudgetCPU, Rounds: o.Rounds, Scenarios: o.Scenarios,
			Starts: o.Starts, TestStarts: o.TestStarts, Seed: o.Seed, Threads: o.Threads, Command: "gpc.compile", Progress: run.report(),
		})
		return answer(out, r, err)
	})
}

//export gpc_export_c
func gpc_export_c(h C.uintptr_t, opt *C.char, out **C.char, cancel C.uintptr_t, err **C.char) C.int32_t {
	return onCall(h, opt, cancel, err, func(s *session, o *struct {
		Dir      string `json:"dir"`
		Method   string `json:"method"`
		Episodes int    `json:"episodes"`
		FMU      bool   `json:"fmu"`
		MapOnly  bool   `json:"map_only"`
		Half     bool   `json:"half"`
		Records  int    `json:"records"`
		Seed     uint64 `json:"seed"`
		measured
	}, run *run) error {
		if s.setup.Model == nil {
			return wrongf("method %s of case %s has no map, which an export needs", s.setup.Method, s.staged.Name())
		}
		sensors := o.measured.or(s.measured)
		c, err := sensors.apply(s.staged, false)
		if err != nil {
			return err
		}
		r, err := c.Export(run, s.setup.Model, gpc.ExportOptions{
			Dir: o.Dir, Method: o.Method, Episodes: o.Episodes, FMU: o.FMU, MapOnly: o.MapOnly, Half: o.Half, Records: o.Records, Seed: o.Seed,
		})
		return answer(out, r, err)
	})
}

// server is a session behind HTTP.
type server struct {
	session   *session
	decisions *serve.Server
	end       context.CancelFunc
	finished  chan error
	doors     []string
	engine    *gpc.Engine
}

// Close ends the doors, answers what was asked, and gives the engine back.
func (s *server) Close() error {
	s.end()
	err := <-s.finished
	s.decisions.Close()
	if e := s.engine.Close(); err == nil {
		err = e
	}
	return err
}

//export gpc_serve
func gpc_serve(h C.uintptr_t, opt *C.char, out *C.uintptr_t, err **C.char) C.int32_t {
	return onCall(h, opt, 0, err, func(s *session, o *struct {
		Listen     string    `json:"listen"`
		Unix       string    `json:"unix"`
		Token      string    `json:"token"`
		Preference []float64 `json:"preference"`
		Sessions   int       `json:"sessions"`
		DeadlineMS float64   `json:"deadline_ms"`
		measured
	}, _ *run) error {
		sensors := o.measured.or(s.measured)
		c, err := sensors.apply(s.staged, false)
		if err != nil {
			return err
		}
		e, err := gpc.OpenEngine(s.choice)
		if err != nil {
			return err
		}
		decisions, err := serve.New(c, e, serve.Options{
			Setup: s.setup, Preference: o.Preference, Sessions: o.Sessions, Deadline: time.Duration(o.DeadlineMS * float64(time.Millisecond)), Threads: s.choice.Threads,
		})
		if err != nil {
			e.Close()
			return err
		}
		doors, err := decisions.Listen(serve.ListenOptions{Address: o.Listen, Unix: o.Unix, Token: o.Token})
		if err == nil && len(doors) == 0 {
			err = wrongf("serve needs a way to receive requests: listen or unix")
		}
		if err != nil {
			decisions.Close()
			e.Close()
			return err
		}
		ctx, end := context.WithCancel(context.Background())
		v := &server{session: s, decisions: decisions, end: end, finished: make(chan error, 1), engine: e}
		for _, l := range doors {
			v.doors = append(v.doors, l.Addr().String())
		}
		go func() {
			v.finished <- decisions.HTTP(ctx, serve.Handler(decisions, serve.HTTPOptions{Token: o.Token}), doors, 0)
		}()
		hand(out, v)
		return nil
	})
}

//export gpc_server_about
func gpc_server_about(h C.uintptr_t, out **C.char, err **C.char) C.int32_t {
	return onHandle(h, err, func(s *server) error {
		return answer(out, struct {
			Doors  []string     `json:"doors"`
			Health serve.Health `json:"health"`
		}{s.doors, s.decisions.Health()})
	})
}
