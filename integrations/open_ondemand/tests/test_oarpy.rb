# SPDX-License-Identifier: MIT
# Submits to the cluster whose commands are in PATH: ruby -I lib -I .../ood_core/lib tests/test_oarpy.rb
require "etc"
require "minitest/autorun"
require "tmpdir"
# what adapters are made of, without the libraries that ood_core loads for OpenStack
%w[errors data_formatter refinements/hash_extensions refinements/array_extensions].each { |name| require "ood_core/#{name}" }
%w[node_info script info cluster_info account_info queue_info status adapter factory task].each do |name|
  require "ood_core/job/#{name}"
end

class TestOarpy < Minitest::Test
  TIMEOUT = 120

  def setup
    @adapter = OodCore::Job::Factory.build(adapter: "oarpy")
    @folder = Dir.mktmpdir
  end

  def teardown
    FileUtils.remove_entry(@folder)
  end

  def submit(content, after: {}, **options)
    script = OodCore::Job::Script.new(content: content, workdir: @folder, **options)
    @adapter.submit(script, **after)
  end

  def wait_for(id, *states)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + TIMEOUT
    until states.include?((info = @adapter.info(id)).status.to_sym)
      raise "job #{id} is #{info.status}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      sleep 0.2
    end
    info
  end

  def test_a_script_runs_with_its_arguments_and_variables
    id = submit(
      "echo $1 $COLOUR $OAR_JOB_NAME", args: ["one"], job_environment: { "COLOUR" => "red" }, job_name: "first",
      output_path: "out", accounting_id: "lectures", queue_name: "default", cores: 2, wall_time: 600
    )
    info = wait_for(id, :completed)
    assert_equal "one red first\n", File.read(File.join(@folder, "out"))
    assert_equal ["first", Etc.getlogin || Etc.getpwuid.name, "lectures", "default", 2, 600],
                 [info.job_name, info.job_owner, info.accounting_id, info.queue_name, info.procs, info.wallclock_limit]
    assert_equal 1, info.allocated_nodes.size
    assert_operator info.dispatch_time, :>=, info.submission_time
  end

  def test_a_job_is_held_released_followed_and_deleted
    id = submit("sleep 600", submit_as_hold: true, wall_time: 1200)
    assert_equal :queued_held, @adapter.status(id).to_sym
    @adapter.release(id)
    wait_for(id, :running)
    assert_includes @adapter.info_all.map(&:id), id
    assert_includes @adapter.info_where_owner(Etc.getpwuid.name).map(&:id), id
    assert_operator @adapter.cluster_info.active_processors, :>=, 1
    @adapter.delete(id)
    wait_for(id, :completed)
    3.times { |n| @adapter.public_send(%i[hold release delete][n], id) }
  end

  def test_arrays_have_tasks_and_jobs_wait_for_others
    id = submit("exit 0", job_array_request: "1-2")
    later = submit("exit 0", after: { afterok: [id] })
    assert_equal %i[completed completed], wait_for(id, :completed).tasks.map { |task| task.status.to_sym }
    wait_for(later, :completed)
  end

  def test_what_does_not_exist_is_over_and_errors_are_told
    assert_equal :completed, @adapter.status("999999").to_sym
    error = assert_raises(OodCore::JobAdapterError) { submit("exit 0", queue_name: "nosuch") }
    assert_match(/unknown queue 'nosuch'/, error.message)
    assert_raises(OodCore::JobAdapterError) { submit("exit 0", job_array_request: "3-5") }
    assert_equal "default", @adapter.queues.map(&:name).find { |name| name == "default" }
  end
end
