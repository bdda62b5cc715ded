% MATPOWER's own power flow and optimal power flow of case files: a line each with the name, whether the power flow
% converged, its least voltage (pu) and loss (MW), whether the optimum was found (-1 not tried, -2 an error) and its cost.
%   octave-cli -q reference.m MATPOWER BUSES FILE...
% DC lines are on. Optima are of MIPS, of files with costs and at most BUSES buses.
a = argv();
for folder = {'lib', 'data', 'mips/lib', 'mp-opt-model/lib', 'mptest/lib'}
    addpath([a{1} '/' folder{1}]);
end
warning('off', 'all');
define_constants;
for i = 3:numel(a)
    [converged, least, loss, found, cost] = deal(-1, NaN, NaN, -1, NaN);
    [~, name] = fileparts(a{i});
    try
        mpc = loadcase(a{i});
        if isfield(mpc, 'dcline')
            mpc = toggle_dcline(mpc, 'on');
        end
        r = runpf(mpc, mpoption('out.all', 0, 'verbose', 0, 'pf.tol', 1e-9, 'pf.nr.max_it', 30));
        [converged, least, loss] = deal(r.success, min(r.bus(r.bus(:, BUS_TYPE) ~= 4, VM)), sum(real(get_losses(r))));
    end
    try
        if isfield(mpc, 'gencost') && size(mpc.bus, 1) <= str2double(a{2})
            found = -2;
            r = runopf(mpc, mpoption('out.all', 0, 'verbose', 0));
            [found, cost] = deal(r.success, r.f);
        end
    end
    printf('%s %d %.12g %.12g %d %.12g\n', name, converged, least, loss, found, cost);
    fflush(stdout);
end
