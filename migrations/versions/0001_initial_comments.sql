-- What each table and column is for; \d+ in psql and docs/database.md show it.

COMMENT ON TABLE site IS 'what this installation is; one row';
COMMENT ON COLUMN site.only_row IS 'always true: keeps the table at one row';
COMMENT ON COLUMN site.instance IS 'number of this installation, never used again';
COMMENT ON COLUMN site.platform_version IS 'grows whenever resources, nodes or properties change';
COMMENT ON COLUMN site.created_at IS 'when the schema was created';

COMMENT ON TABLE job_states IS 'the states of a job';
COMMENT ON COLUMN job_states.state IS 'name of the state';
COMMENT ON COLUMN job_states.letter IS 'its letter in oarstat';
COMMENT ON COLUMN job_states.final IS 'whether nothing follows';
COMMENT ON COLUMN job_states.holding IS 'whether the job holds its resources in it';

COMMENT ON TABLE job_transitions IS 'the allowed moves between job states, for every SQL client';
COMMENT ON COLUMN job_transitions.from_state IS 'state before';
COMMENT ON COLUMN job_transitions.to_state IS 'state after';
COMMENT ON COLUMN job_transitions.event IS 'what such a move means';
COMMENT ON COLUMN job_transitions.who IS 'the module or command that makes it';

COMMENT ON TABLE resource_states IS 'the states of a resource';
COMMENT ON COLUMN resource_states.state IS 'Alive, Absent, Suspected or Dead';

COMMENT ON TABLE queues IS 'the queues that jobs wait in';
COMMENT ON COLUMN queues.queue_name IS 'name of the queue';
COMMENT ON COLUMN queues.priority IS 'queues with a higher one are planned first';
COMMENT ON COLUMN queues.policy IS 'order of the jobs inside the queue';
COMMENT ON COLUMN queues.active IS 'whether jobs of the queue are started';
COMMENT ON COLUMN queues.message IS 'what users are told about the queue';

COMMENT ON TABLE admission_rules IS 'the rules that every submission goes through';
COMMENT ON COLUMN admission_rules.rule_id IS 'number of the rule';
COMMENT ON COLUMN admission_rules.name IS 'its name, which stays';
COMMENT ON COLUMN admission_rules.priority IS 'rules with a lower one run first';
COMMENT ON COLUMN admission_rules.enabled IS 'whether it runs';
COMMENT ON COLUMN admission_rules.rule_text IS 'its Python text';
COMMENT ON COLUMN admission_rules.version IS 'number of the present version';

COMMENT ON TABLE admission_rule_versions IS 'every version of every rule; written by triggers';
COMMENT ON COLUMN admission_rule_versions.name IS 'the rule';
COMMENT ON COLUMN admission_rule_versions.version IS 'number of the version, from 1';
COMMENT ON COLUMN admission_rule_versions.priority IS 'its priority then';
COMMENT ON COLUMN admission_rule_versions.enabled IS 'whether it ran then';
COMMENT ON COLUMN admission_rule_versions.rule_text IS 'its text then';
COMMENT ON COLUMN admission_rule_versions.deleted IS 'whether this is the end of the rule';
COMMENT ON COLUMN admission_rule_versions.changed_at IS 'since when';
COMMENT ON COLUMN admission_rule_versions.changed_by IS 'who changed it';

COMMENT ON TABLE quotas IS 'limits on what runs at one time, by queue, project, job type and user';
COMMENT ON COLUMN quotas.quota_id IS 'number of the quota';
COMMENT ON COLUMN quotas.queue_name IS 'a queue, * for all together, / for each one';
COMMENT ON COLUMN quotas.project IS 'a project, * or /';
COMMENT ON COLUMN quotas.job_type IS 'a job type, * or /';
COMMENT ON COLUMN quotas.user_name IS 'a user, * or /';
COMMENT ON COLUMN quotas.max_resources IS 'resources held at one time, -1 for no limit';
COMMENT ON COLUMN quotas.max_jobs IS 'jobs at one time, -1 for no limit';
COMMENT ON COLUMN quotas.max_resource_hours IS 'resource-hours at one time, -1 for no limit';

COMMENT ON TABLE nodes IS 'how each node is reached, and what is known of the channel to it';
COMMENT ON COLUMN nodes.network_address IS 'name of the node, as resources spell it';
COMMENT ON COLUMN nodes.transport IS 'local, or ssh';
COMMENT ON COLUMN nodes.host IS 'address to connect to, NULL for the name itself';
COMMENT ON COLUMN nodes.port IS 'port to connect to, NULL for the configured one';
COMMENT ON COLUMN nodes.channel IS 'unknown, connected or lost';
COMMENT ON COLUMN nodes.channel_since IS 'since when';
COMMENT ON COLUMN nodes.channel_message IS 'why it is lost';
COMMENT ON COLUMN nodes.boot_id IS 'changes when the node restarts';

COMMENT ON TABLE resource_properties IS 'the columns of resources that requests and filters may name';
COMMENT ON COLUMN resource_properties.name IS 'name of the column';
COMMENT ON COLUMN resource_properties.kind IS 'its type';
COMMENT ON COLUMN resource_properties.protected IS 'whether it is part of oarpy and stays';

COMMENT ON TABLE resources IS 'the smallest things that are allocated, one row each; oarproperty adds columns';
COMMENT ON COLUMN resources.resource_id IS 'number of the resource';
COMMENT ON COLUMN resources.type IS 'default for what computes; others are given only when a request names their type';
COMMENT ON COLUMN resources.network_address IS 'its node';
COMMENT ON COLUMN resources.state IS 'Alive, Absent, Suspected or Dead';
COMMENT ON COLUMN resources.state_by IS 'who put it there; the monitor undoes its own decisions only';
COMMENT ON COLUMN resources.state_since IS 'since when';
COMMENT ON COLUMN resources.drain IS 'whether running jobs may end but none start';
COMMENT ON COLUMN resources.besteffort IS 'whether best-effort jobs may use it';
COMMENT ON COLUMN resources.deploy IS 'whether deploy jobs may use it';
COMMENT ON COLUMN resources.available_upto IS 'until when it can be woken up';
COMMENT ON COLUMN resources.cpuset IS 'its number inside the node';
COMMENT ON COLUMN resources.host IS 'its host';
COMMENT ON COLUMN resources.cpu IS 'its processor';
COMMENT ON COLUMN resources.core IS 'its core';

COMMENT ON TABLE resource_state_logs IS 'every state of every resource; written by triggers';
COMMENT ON COLUMN resource_state_logs.resource_id IS 'the resource';
COMMENT ON COLUMN resource_state_logs.state IS 'the state';
COMMENT ON COLUMN resource_state_logs.state_by IS 'who put it there';
COMMENT ON COLUMN resource_state_logs.during IS 'when it was in it, open while it is';

COMMENT ON TABLE submissions IS 'what the jobs of one oarsub share';
COMMENT ON COLUMN submissions.submission_id IS 'number of the submission';
COMMENT ON COLUMN submissions.initial_request IS 'the command line as typed';
COMMENT ON COLUMN submissions.environment IS 'environment variables of the user';
COMMENT ON COLUMN submissions.submitted_from IS 'host that it came from';

COMMENT ON TABLE moldable_descriptions IS 'the alternatives of a submission, one for each -l';
COMMENT ON COLUMN moldable_descriptions.moldable_id IS 'number of the alternative';
COMMENT ON COLUMN moldable_descriptions.submission_id IS 'the submission';
COMMENT ON COLUMN moldable_descriptions.position IS 'its place among them, from 0; the first wins ties';
COMMENT ON COLUMN moldable_descriptions.walltime IS 'how long it may run';

COMMENT ON TABLE resource_groups IS 'the parts of an alternative, joined by +';
COMMENT ON COLUMN resource_groups.group_id IS 'number of the part';
COMMENT ON COLUMN resource_groups.moldable_id IS 'the alternative';
COMMENT ON COLUMN resource_groups.position IS 'its place, from 0';
COMMENT ON COLUMN resource_groups.filter IS 'SQL condition on resources, empty for none';

COMMENT ON TABLE resource_descriptions IS 'the levels of a part, such as /nodes=2/core=4';
COMMENT ON COLUMN resource_descriptions.group_id IS 'the part';
COMMENT ON COLUMN resource_descriptions.position IS 'its place, from 0';
COMMENT ON COLUMN resource_descriptions.level IS 'property that is counted';

COMMENT ON TABLE jobs IS 'the jobs, one row for each member of an array';
COMMENT ON COLUMN jobs.job_id IS 'number of the job';
COMMENT ON COLUMN jobs.submission_id IS 'the submission that it came with';
COMMENT ON COLUMN jobs.array_id IS 'number of the first job of its array';
COMMENT ON COLUMN jobs.array_index IS 'place in the array, from 1';
COMMENT ON COLUMN jobs.job_name IS 'name given by the user';
COMMENT ON COLUMN jobs.user_name IS 'who submitted it, and whom it runs as';
COMMENT ON COLUMN jobs.project IS 'project that it counts for';
COMMENT ON COLUMN jobs.queue_name IS 'queue that it is in';
COMMENT ON COLUMN jobs.kind IS 'PASSIVE (a script) or INTERACTIVE';
COMMENT ON COLUMN jobs.types IS 'the words of oarsub -t';
COMMENT ON COLUMN jobs.properties IS 'SQL condition that every resource of it must meet';
COMMENT ON COLUMN jobs.command IS 'what it runs';
COMMENT ON COLUMN jobs.launching_directory IS 'directory that it starts in';
COMMENT ON COLUMN jobs.stdout_path IS 'file for its standard output';
COMMENT ON COLUMN jobs.stderr_path IS 'file for its standard error';
COMMENT ON COLUMN jobs.checkpoint IS 'how long before the end of its walltime it is signalled';
COMMENT ON COLUMN jobs.checkpoint_signal IS 'with which signal';
COMMENT ON COLUMN jobs.notify IS 'whom to tell about its life';
COMMENT ON COLUMN jobs.reservation_start IS 'start asked for by an advance reservation';
COMMENT ON COLUMN jobs.reservation_state IS 'toSchedule, then Scheduled once accepted';
COMMENT ON COLUMN jobs.resubmit_of IS 'the job that it repeats';
COMMENT ON COLUMN jobs.state IS 'present state; job_transitions says what may follow';
COMMENT ON COLUMN jobs.message IS 'last remark of the system';
COMMENT ON COLUMN jobs.attempt IS 'how often it was launched; a node starts each attempt once';
COMMENT ON COLUMN jobs.incarnation IS 'of its first node when the attempt was claimed: fences off a node that forgot in between';
COMMENT ON COLUMN jobs.moldable_id IS 'the alternative that was chosen';
COMMENT ON COLUMN jobs.walltime IS 'walltime of that alternative, or what it was changed to';
COMMENT ON COLUMN jobs.exit_status IS 'wait status of its command';
COMMENT ON COLUMN jobs.final_state IS 'what it will become when it is Finishing';
COMMENT ON COLUMN jobs.submitted_at IS 'when it was submitted';
COMMENT ON COLUMN jobs.started_at IS 'when its command started';
COMMENT ON COLUMN jobs.ended_at IS 'when it reached its final state';
COMMENT ON COLUMN jobs.accounted IS 'whether accounting has counted it';

COMMENT ON TABLE job_dependencies IS 'which job waits for which';
COMMENT ON COLUMN job_dependencies.job_id IS 'the job that waits';
COMMENT ON COLUMN job_dependencies.required_job_id IS 'the job that must end first';
COMMENT ON COLUMN job_dependencies.outcome IS 'how it must end: any, ok or notok';

COMMENT ON TABLE job_state_logs IS 'every state of every job; written by triggers';
COMMENT ON COLUMN job_state_logs.job_id IS 'the job';
COMMENT ON COLUMN job_state_logs.state IS 'the state';
COMMENT ON COLUMN job_state_logs.previous_state IS 'where it came from, NULL at submission';
COMMENT ON COLUMN job_state_logs.during IS 'when it was in it, open while it is';

COMMENT ON TABLE assigned_resources IS 'who holds what, and who held it';
COMMENT ON COLUMN assigned_resources.job_id IS 'the job';
COMMENT ON COLUMN assigned_resources.resource_id IS 'the resource';
COMMENT ON COLUMN assigned_resources.during IS 'when; open until the job is over';
COMMENT ON COLUMN assigned_resources.exclusive IS 'whether nobody else may hold it meanwhile';

COMMENT ON TABLE reserved_resources IS 'what accepted advance reservations will hold';
COMMENT ON COLUMN reserved_resources.job_id IS 'the reservation';
COMMENT ON COLUMN reserved_resources.resource_id IS 'the resource';
COMMENT ON COLUMN reserved_resources.during IS 'when';
COMMENT ON COLUMN reserved_resources.exclusive IS 'whether nobody else may hold it meanwhile';

COMMENT ON TABLE gantt_predictions IS 'what the last scheduling pass found for each job that has not started';
COMMENT ON COLUMN gantt_predictions.job_id IS 'the job';
COMMENT ON COLUMN gantt_predictions.verdict IS 'why it does not start now, or that it does';
COMMENT ON COLUMN gantt_predictions.reason IS 'the same in words';
COMMENT ON COLUMN gantt_predictions.moldable_id IS 'the alternative that is predicted';
COMMENT ON COLUMN gantt_predictions.start_time IS 'predicted start, NULL without a prediction';
COMMENT ON COLUMN gantt_predictions.end_time IS 'predicted start plus walltime';
COMMENT ON COLUMN gantt_predictions.resources IS 'numbers of the predicted resources';

COMMENT ON TABLE scheduling_passes IS 'the last scheduling pass; one row';
COMMENT ON COLUMN scheduling_passes.only_row IS 'always true: keeps the table at one row';
COMMENT ON COLUMN scheduling_passes.pass IS 'number of the pass';
COMMENT ON COLUMN scheduling_passes.at IS 'when it was';
COMMENT ON COLUMN scheduling_passes.seconds IS 'how long it took';
COMMENT ON COLUMN scheduling_passes.waiting IS 'how many jobs it looked at';

COMMENT ON TABLE kill_requests IS 'who is to be killed, and how far that is (OAR: frag_jobs)';
COMMENT ON COLUMN kill_requests.job_id IS 'the job';
COMMENT ON COLUMN kill_requests.requested_at IS 'when';
COMMENT ON COLUMN kill_requests.requested_by IS 'by whom';
COMMENT ON COLUMN kill_requests.reason IS 'why: oardel, walltime, besteffort, ...';
COMMENT ON COLUMN kill_requests.state IS 'asked, decided by the canceller, done';

COMMENT ON TABLE signal_requests IS 'signals to send to running jobs';
COMMENT ON COLUMN signal_requests.request_id IS 'number of the request';
COMMENT ON COLUMN signal_requests.job_id IS 'the job';
COMMENT ON COLUMN signal_requests.signal IS 'number of the signal';
COMMENT ON COLUMN signal_requests.requested_at IS 'when';
COMMENT ON COLUMN signal_requests.requested_by IS 'by whom';
COMMENT ON COLUMN signal_requests.done IS 'whether it was sent';

COMMENT ON TABLE event_logs IS 'what happened to jobs and nodes';
COMMENT ON COLUMN event_logs.event_id IS 'number of the event';
COMMENT ON COLUMN event_logs.at IS 'when';
COMMENT ON COLUMN event_logs.type IS 'kind of event, in capitals';
COMMENT ON COLUMN event_logs.job_id IS 'the job concerned, if any';
COMMENT ON COLUMN event_logs.hosts IS 'the nodes concerned';
COMMENT ON COLUMN event_logs.description IS 'in words';

COMMENT ON TABLE accounting IS 'consumption by window, user, project and queue';
COMMENT ON COLUMN accounting.window_start IS 'begin of the window';
COMMENT ON COLUMN accounting.window_stop IS 'its end';
COMMENT ON COLUMN accounting.user_name IS 'the user';
COMMENT ON COLUMN accounting.project IS 'the project';
COMMENT ON COLUMN accounting.queue_name IS 'the queue';
COMMENT ON COLUMN accounting.consumption_type IS 'ASKED or USED';

COMMENT ON TABLE module_runs IS 'when each module last ran, for people';
COMMENT ON COLUMN module_runs.module IS 'name of the module';
COMMENT ON COLUMN module_runs.at IS 'when';
COMMENT ON COLUMN module_runs.outcome IS 'what it said';
COMMENT ON COLUMN module_runs.pid IS 'its process';
COMMENT ON COLUMN module_runs.host IS 'its machine';
