# SPDX-License-Identifier: MIT
require "json"
require "open3"
require "pathname"
require "shellwords"
require "time"
require "ood_core/refinements/array_extensions"
require "ood_core/refinements/hash_extensions"
require "ood_core/job/adapters/helper"

module OodCore
  module Job
    class Factory
      using Refinements::HashExtensions

      # Build the oarpy adapter from a configuration
      # @param config [#to_h] the configuration for job adapter
      # @option config [Object] :bin (nil) Path to oarpy's commands
      # @option config [Object] :conf (nil) Path to oarpy's configuration
      # @option config [#to_h] :bin_overrides ({}) Optional overrides to oarpy's commands
      # @option config [Object] :submit_host ("") Host on which the commands are called by ssh
      # @option config [Object] :strict_host_checking (true) Whether to use strict host checking when ssh to submit_host
      def self.build_oarpy(config)
        c = config.to_h.compact.symbolize_keys
        batch = Adapters::Oarpy::Batch.new(
          bin: c.fetch(:bin, ""),
          conf: c.fetch(:conf, nil),
          bin_overrides: c.fetch(:bin_overrides, {}),
          submit_host: c.fetch(:submit_host, ""),
          strict_host_checking: c.fetch(:strict_host_checking, true)
        )
        Adapters::Oarpy.new(batch: batch)
      end
    end

    module Adapters
      # An adapter object that describes the communication with the scheduler
      # oarpy, by its commands and the JSON that they print.
      class Oarpy < Adapter
        using Refinements::ArrayExtensions
        using Refinements::HashExtensions

        # Calls oarpy's commands.
        # @api private
        class Batch
          # A command failed; `status` is its exit status
          class Error < StandardError
            attr_reader :status

            def initialize(message, status)
              super(message)
              @status = status
            end
          end

          def initialize(bin: "", conf: nil, bin_overrides: {}, submit_host: "", strict_host_checking: true)
            @bin                  = bin.to_s
            @conf                 = conf && conf.to_s
            @bin_overrides        = bin_overrides
            @submit_host          = submit_host.to_s
            @strict_host_checking = strict_host_checking
          end

          # Call a command
          # @raise [Error] if it exited unsuccessfully
          # @return [String] what it printed
          def call(cmd, *args, env: {}, stdin: "", chdir: nil)
            env = env.to_h.each_with_object({}) { |(k, v), h| h[k.to_s] = v.to_s }
            env["OARPY_CONFIG"] = @conf if @conf
            cmd = Helper.bin_path(cmd, @bin, @bin_overrides)
            # what ssh passes on is read by a shell
            args = args.map(&:to_s)
            args = args.map { |arg| Shellwords.escape(arg) } unless @submit_host.empty?
            cmd, args = Helper.ssh_wrap(@submit_host, cmd, args, @strict_host_checking, env)
            o, e, s = Open3.capture3(env, cmd, *args, stdin_data: stdin.to_s, chdir: (chdir || ".").to_s)
            s.success? ? o : raise(Error.new(e.empty? ? o : e, s.exitstatus))
          end

          # Call a command that prints JSON
          def json(cmd, *args)
            JSON.parse(call(cmd, *args, "-J"))
          end
        end

        # Exit status of commands for what does not exist
        NOT_FOUND = 4

        # States of oarpy's jobs
        STATE_MAP = {
          "Hold"             => :queued_held,
          "Waiting"          => :queued,
          "toAckReservation" => :queued,
          "toLaunch"         => :queued,
          "Launching"        => :queued,
          "Running"          => :running,
          "Suspended"        => :suspended,
          "Resuming"         => :suspended,
          "Finishing"        => :running,
          "toError"          => :completed,
          "Terminated"       => :completed,
          "Error"            => :completed
        }.freeze

        # @api private
        # @param opts [#to_h] the options defining this adapter
        # @option opts [Batch] :batch The object that calls commands
        # @see Factory.build_oarpy
        def initialize(opts = {})
          o = opts.to_h.symbolize_keys
          @batch = o.fetch(:batch) { raise ArgumentError, "No batch object specified. Missing argument: batch" }
        end

        # Submit a job with the attributes defined in the job template instance
        # @param script [Script] script object that describes the script and
        #   attributes for the submitted job
        # @param after [#to_s, Array<#to_s>] this job may start once these have started
        # @param afterok [#to_s, Array<#to_s>] once these have ended well
        # @param afternotok [#to_s, Array<#to_s>] once these have ended otherwise
        # @param afterany [#to_s, Array<#to_s>] once these have ended
        # @raise [JobAdapterError] if something goes wrong submitting a job
        # @return [String] the job id returned after successfully submitting a job
        # @see Adapter#submit
        def submit(script, after: [], afterok: [], afternotok: [], afterany: [])
          args = ["--parsable"]
          args.concat ["--hold"] if script.submit_as_hold
          args.concat ["-t", "idempotent"] if script.rerunnable
          args.concat ["--notify", notify(script)] unless script.email.nil?
          args.concat ["-n", script.job_name] unless script.job_name.nil?
          args.concat ["-d", script.workdir.to_s] unless script.workdir.nil?
          args.concat output(script)
          args.concat ["-r", script.start_time.localtime.strftime("%F %T")] unless script.start_time.nil?
          args.concat ["-q", script.queue_name] unless script.queue_name.nil?
          args.concat ["--project", script.accounting_id] unless script.accounting_id.nil?
          args.concat resources(script)
          args.concat ["--array", array_size(script.job_array_request).to_s] unless script.job_array_request.nil?
          { "%s,[+0" => after, "ok:%s" => afterok, "notok:%s" => afternotok, "%s" => afterany }.each do |form, ids|
            Array.wrap(ids).each { |id| args.concat ["-a", form % id] }
          end
          args.concat Array.wrap(script.native).map(&:to_s)
          # the script is read from standard input, which arguments may follow
          args.concat ["-S", "-", *Array.wrap(script.args).map(&:to_s)]

          env = script.job_environment.to_h
          @batch.call("oarsub", *args, env: env, stdin: content(script), chdir: script.workdir).strip
        rescue Batch::Error => e
          raise JobAdapterError, e.message
        end

        # Retrieve info about active and total cores and nodes
        # @return [ClusterInfo] information about cluster usage
        def cluster_info
          rows = @batch.json("oarnodes").values.select { |row| row["type"] == "default" && row["state"] == "Alive" }
          busy = rows.reject { |row| row["jobs"].empty? }
          ClusterInfo.new(
            active_nodes: hosts(busy).size, total_nodes: hosts(rows).size,
            active_processors: busy.size, total_processors: rows.size, active_gpus: 0, total_gpus: 0
          )
        rescue Batch::Error => e
          raise JobAdapterError, e.message
        end

        # Retrieve info for all jobs that are not over
        # @raise [JobAdapterError] if something goes wrong getting job info
        # @return [Array<Info>] information describing submitted jobs
        # @see Adapter#info_all
        def info_all(attrs: nil)
          listed
        end

        # Retrieve info for the jobs of an owner or owners
        # @return [Array<Info>] information describing submitted jobs
        # @see Adapter#info_where_owner
        def info_where_owner(owner, attrs: nil)
          Array.wrap(owner).flat_map { |name| listed("-u", name.to_s) }
        end

        # Retrieve job info; one that does not exist is over
        # @param id [#to_s] the id of the job, or of an array
        # @raise [JobAdapterError] if something goes wrong getting job info
        # @return [Info] information describing submitted job
        # @see Adapter#info
        def info(id)
          row = @batch.json("oarstat", "-j", id.to_s).fetch(id.to_s)
          rows = row["array_id"].to_s == id.to_s ? @batch.json("oarstat", "--array", id.to_s).values : [row]
          rows.size > 1 ? array_info(id.to_s, rows) : job_info(row)
        rescue Batch::Error => e
          raise JobAdapterError, e.message unless e.status == NOT_FOUND
          Info.new(id: id.to_s, status: :completed)
        end

        # Retrieve job status
        # @param id [#to_s] the id of the job
        # @return [Status] status of job
        # @see Adapter#status
        def status(id)
          info(id).status
        end

        # Put the submitted job on hold
        # @see Adapter#hold
        def hold(id)
          act("oarhold", id)
        end

        # Release the job that is on hold
        # @see Adapter#release
        def release(id)
          act("oarresume", id)
        end

        # Delete the submitted job
        # @see Adapter#delete
        def delete(id)
          act("oardel", id)
        end

        # Queues that may be used
        # @return [Array<QueueInfo>] the active ones
        def queues
          @batch.json("oarqueue").select { |_, queue| queue["active"] }.map { |name, _| QueueInfo.new(name: name) }
        rescue Batch::Error => e
          raise JobAdapterError, e.message
        end

        def directive_prefix
          "#OAR"
        end

        private

        # Act on a job, or on all of an array. There is nothing to do for what is over.
        def act(command, id)
          return if status(id).completed?

          @batch.call(command, "--array", id.to_s)
          nil
        rescue Batch::Error => e
          raise JobAdapterError, e.message unless e.status == NOT_FOUND || status(id).completed?
        end

        def listed(*args)
          @batch.json("oarstat", *args).values.map { |row| job_info(row) }
        rescue Batch::Error => e
          raise JobAdapterError, e.message
        end

        def job_info(row)
          Info.new(
            id: row["Job_Id"],
            status: STATE_MAP.fetch(row["state"], :undetermined),
            allocated_nodes: row["assigned_network_address"].map { |name| { name: name } },
            job_name: row["name"],
            job_owner: row["owner"],
            accounting_id: row["project"],
            procs: row["assigned_resources"].empty? ? nil : row["assigned_resources"].size,
            queue_name: row["queue"],
            wallclock_time: row["state"] == "Waiting" ? nil : ran(row),
            wallclock_limit: row["walltime"],
            cpu_time: row["cpu_seconds"],
            submission_time: row["submissionTime"],
            dispatch_time: dispatched(row),
            native: row
          )
        end

        # An array is what the furthest of its members is
        def array_info(id, rows)
          infos = rows.map { |row| job_info(row) }
          first = infos.first.to_h
          tasks = infos.map { |one| { id: one.id, status: one.status.to_sym } }
          Info.new(**first.merge(id: id, status: infos.map(&:status).max.to_sym, tasks: tasks))
        end

        # A reservation that waits has a start to come
        def dispatched(row)
          row["startTime"] unless %w[Hold Waiting toAckReservation].include?(row["state"])
        end

        def ran(row)
          begun = dispatched(row)
          begun && [(row["stopTime"] || Time.now.to_i) - begun, 0].max
        end

        def hosts(rows)
          rows.map { |row| row["network_address"] }.uniq
        end

        # What asks for nothing is left to the site, or to native options
        def resources(script)
          return [] if script.cores.nil? && script.wall_time.nil? && script.gpus_per_node.nil?

          request = "/nodes=1"
          request += script.gpus_per_node.nil? ? "/core=#{script.cores || 1}" : "/gpu=#{script.gpus_per_node}"
          request += ",walltime=#{duration(script.wall_time)}" unless script.wall_time.nil?
          ["-l", request]
        end

        def duration(seconds)
          format("%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60)
        end

        # Errors are beside the output unless they have a file of their own
        def output(script)
          return [] if script.output_path.nil? && script.error_path.nil?

          out = script.output_path || "OAR.%jobid%.stdout"
          ["-O", out.to_s, "-E", (script.error_path || out).to_s]
        end

        def notify(script)
          tags = []
          tags << "RUNNING" if script.email_on_started
          tags << "END" << "ERROR" if script.email_on_terminated
          (tags.empty? ? "" : "[#{tags.join(",")}]") + "mail:#{Array.wrap(script.email).first}"
        end

        # Members are numbered from 1 on
        def array_size(request)
          found = /\A1-(\d+)\z/.match(request.to_s.strip)
          raise JobAdapterError, "array '#{request}' is not understood: 1-N" if found.nil?

          found[1].to_i
        end

        def content(script)
          return script.content if script.content.start_with?("#!")

          "#!#{script.shell_path || "/bin/bash"}\n#{script.content}"
        end
      end
    end
  end
end
